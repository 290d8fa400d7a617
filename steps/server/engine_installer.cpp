#include "steps/server/engine_installer.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

constexpr const char* kMarker = ".millwright-environment";
constexpr std::string_view kOnNode = "node:";

std::string marker_of(const InstallJob& job) { return job.folder() + "/" + kMarker; }

// How many files a whole environment has, but for bytecode that Python adds. Another file beside the marker: older
// environments have none and pass as whole.
constexpr const char* kCount = ".millwright-files";
constexpr const char* kCountFiles =
    R"sh(count_files() { find "$1" -xdev -type f ! -name '*.pyc' ! -name '.millwright-*' 2>/dev/null | wc -l; }
)sh";

// What is half done goes when it fails, so that a full disk is no fuller than before.
constexpr const char* kBuildBegin = R"sh(fresh=
give_up() {
  code=$?
  [ "$code" != 0 ] || return 0
  rm -rf --one-file-system "$new"
  [ -z "$fresh" ] || rm -rf --one-file-system "$fresh"
}
mkdir -p /opt/millwright/engines; chmod 0755 /opt/millwright /opt/millwright/engines
rm -rf --one-file-system "$new"; mkdir "$new"; umask 022
trap give_up EXIT
)sh";

// After `final` is gone. What environments share goes with the last one.
constexpr const char* kRemoveBegin = R"sh(others=$(ls -A /opt/millwright/engines 2>/dev/null | head -n 1)
)sh";
constexpr const char* kRemoveEnd = R"sh(rmdir /opt/millwright/engines /opt/millwright 2>/dev/null || :
)sh";

// `repair`: it is there, but files of it are gone.
Action build_action(const EngineInstaller& installer, const InstallJob& job, const Answers& answers, bool repair) {
  const std::string final_folder = shell_quote(job.folder());
  const std::string partial = shell_quote(job.partial());
  const std::string identity = shell_quote(installer.identity(job));
  Action action;
  action.title = (repair ? "install again " : "install ") + job.engine + " " + job.version + " in " + job.folder();
  action.script = kCountFiles + std::string("final=") + final_folder + "; new=" + partial + "\n" + kBuildBegin +
                  installer.build(job, answers) + "[ -x \"$new\"/" + shell_quote(job.executable) +
                  " ] || { echo \"there is no program \"" + shell_quote(job.executable) +
                  "\" in what was installed\" >&2; exit 1; }\n" + "printf '%s\\n' " + identity + " > \"$new\"/" +
                  kMarker + "\n" + "count_files \"$new\" > \"$new\"/" + kCount + "\n" +
                  // What was there without a marker is a half-made one of an earlier, killed run.
                  "rm -rf --one-file-system \"$final\"; mv -T \"$new\" \"$final\"\n";
  action.undo =
      "rm -rf --one-file-system " + partial + "\n" + "if [ -d " + final_folder + " ]; then\n" + "if grep -lqsF " +
      final_folder + "/ /var/lib/millwright/servers/*/current/run; then\n" + "  echo " + final_folder +
      "\" is in use by a server\" >&2; exit 65\nfi\n" + "if [ -e " + final_folder + "/" + kMarker + " ] && [ \"$(cat " +
      final_folder + "/" + kMarker + ")\" != " + identity + " ]; then\n" + "  echo " + final_folder +
      "\" was replaced by someone else since\" >&2; [ -n \"${MW_FORCE:-}\" ] || exit 65\nfi\n" +
      "rm -rf --one-file-system " + final_folder + "\nfi\n" + kRemoveBegin + installer.clean_up(job) + kRemoveEnd;
  action.undo_title = "remove " + job.folder();
  if (repair) {
    action.undo = "exit 0\n";
    action.undo_title = "nothing: it was there before, with files missing";
  }
  action.deadline = installer.build_deadline();
  action.marks.guard_self = true;
  return action;
}

// The text of a file under the knowledge folders, the strongest first.
Result<std::string> knowledge_file(const std::string& name) {
  const std::vector<std::string> folders = knowledge_folders();
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    std::ifstream in(*folder + "/" + name, std::ios::binary);
    if (in) return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  }
  return fail(ErrorKind::io, "there is no " + name + " under " + join(folders, ", "));
}

Result<std::string> launcher_text(const std::string& name) {
  if (name.empty()) return std::string();
  if (!std::regex_match(name, std::regex("[A-Za-z0-9][A-Za-z0-9._-]*"))) {
    return fail(ErrorKind::invalid, "a launcher is a file of playbooks/knowledge/launchers, not '" + name + "'");
  }
  return knowledge_file("launchers/" + name);
}

// "sglang==0.5.9, as of 2026-02-25, for Python 3.11 on x86_64": what a lock of the user's says about itself.
Result<std::map<std::string, std::string>> own_lock(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(make_error(ErrorKind::io, "there is no lock " + path).with_hint("`lock` names a file here"));
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::smatch found;
  const std::string head = text.substr(0, text.find('\n'));
  if (!std::regex_search(head, found, std::regex("for Python ([0-9]+\\.[0-9]+) on ([a-z0-9_]+)"))) {
    return fail(make_error(ErrorKind::invalid, path + " does not say what it is a lock for")
                    .with_hint("its first line must have: # ... for Python 3.11 on x86_64"));
  }
  return std::map<std::string, std::string>{{found[2].str() + "-py" + found[1].str(), text}};
}

Result<std::map<std::string, std::string>> locks_of(const InstallJob& job) {
  if (const std::string own = source_text(job.source, "lock"); !own.empty()) return own_lock(own);
  std::map<std::string, std::string> out;
  const std::vector<std::string> folders = knowledge_folders();
  for (auto folder = folders.rbegin(); folder != folders.rend() && out.empty(); ++folder) {
    std::error_code failure;
    const std::string name = *folder + "/locks/" + job.engine + "-" + job.version;
    for (const auto& entry : std::filesystem::directory_iterator(name, failure)) {
      std::ifstream in(entry.path(), std::ios::binary);
      out[entry.path().stem().string()] =
          std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    }
  }
  if (!out.empty()) return out;
  return fail(make_error(ErrorKind::io, "there is no lock for " + job.engine + " " + job.version)
                  .with_hint("playbooks/knowledge/locks/regenerate makes one; name it as `lock` in the source"));
}

}  // namespace

std::string InstallJob::folder() const { return "/opt/millwright/engines/" + engine + "-" + version; }
std::string InstallJob::partial() const { return folder() + ".partial"; }

bool is_on_node(const std::string& path) { return starts_with(path, kOnNode); }

std::string strip_node_prefix(const std::string& path) { return is_on_node(path) ? path.substr(kOnNode.size()) : path; }

std::string source_text(const Value& source, const char* key) {
  if (!source.is_object() || !source.contains(key) || !source.at(key).is_string()) return {};
  return source.at(key).get<std::string>();
}

bool has_unknown(const Value& value) {
  if (value.is_null()) return true;
  if (!value.is_structured()) return false;
  for (const Value& inner : value) {
    if (has_unknown(inner)) return true;
  }
  return false;
}

const EngineInstaller* find_installer(const std::string& method) {
  for (const EngineInstaller* installer : {&archive_installer(), &wheel_installer(), &uv_installer()}) {
    if (installer->method() == method) return installer;
  }
  return nullptr;
}

Result<InstallJob> install_job(const std::string& engine, const std::string& version, const Value& source,
                               const std::string& executable) {
  InstallJob job{engine, version, source, executable, "", {}};
  auto launcher = launcher_text(source_text(source, "launcher"));
  if (!launcher) return fail(launcher.error());
  job.launcher = *launcher;
  if (source_text(source, "method") == uv_installer().method()) {
    auto locks = locks_of(job);
    if (!locks) return fail(locks.error());
    job.locks = std::move(*locks);
  }
  return job;
}

std::string environment_damage_script(const std::string& folder) {
  return std::string(kCountFiles) + "e=" + folder + "\nif [ -r \"$e/" + kCount + "\" ]; then\n  was=$(cat \"$e/" +
         kCount +
         "\"); now=$(count_files \"$e\")\n"
         "  [ \"$now\" -ge \"$was\" ] || echo \"$((was - now)) of its $was files are gone\"\nfi\n";
}

std::vector<Question> environment_questions(const InstallJob& job) {
  const EngineInstaller* installer = find_installer(source_text(job.source, "method"));
  std::vector<Question> out;
  if (installer != nullptr) out = installer->ask(job);
  out.push_back({.key = "environment", .script = "cat " + shell_quote(marker_of(job)) + " 2>/dev/null || :\n"});
  out.push_back({.key = "environment_damage", .script = environment_damage_script(shell_quote(job.folder()))});
  return out;
}

Result<Change> plan_environment(const InstallJob& job, const Answers& answers) {
  const std::string method = source_text(job.source, "method");
  const EngineInstaller* installer = find_installer(method);
  if (installer == nullptr) {
    return fail(ErrorKind::invalid, "there is no way '" + method + "' to install an engine");
  }
  const std::string found = answers.text("environment");
  const std::string wanted = installer->identity(job);
  Change change;
  change.summary = job.engine + " " + job.version + " in " + job.folder();
  const bool damaged = !answers.text("environment_damage").empty();
  if (found == wanted && !damaged) return change;
  if (!found.empty() && found != wanted) {
    return fail(
        make_error(ErrorKind::refused, job.folder() + " holds another build of " + job.engine + " " + job.version)
            .with_hint("remove it on the node when nothing uses it, or call the new one another version"));
  }
  auto actions = installer->prepare(job, answers);
  if (!actions) return fail(actions.error());
  change.actions = std::move(*actions);
  change.actions.push_back(build_action(*installer, job, answers, damaged));
  return change;
}

}  // namespace millwright

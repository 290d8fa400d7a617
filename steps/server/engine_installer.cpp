#include "steps/server/engine_installer.hpp"

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

constexpr const char* kMarker = ".millwright-environment";
constexpr std::string_view kOnNode = "node:";

std::string marker_of(const InstallJob& job) { return job.folder() + "/" + kMarker; }

Action build_action(const EngineInstaller& installer, const InstallJob& job) {
  const std::string final_folder = shell_quote(job.folder());
  const std::string partial = shell_quote(job.partial());
  const std::string identity = shell_quote(installer.identity(job));
  Action action;
  action.title = "install " + job.engine + " " + job.version + " in " + job.folder();
  action.script = "final=" + final_folder + "; new=" + partial + "\n" +
                  "mkdir -p /opt/millwright/engines; chmod 0755 /opt/millwright /opt/millwright/engines\n" +
                  "rm -rf --one-file-system \"$new\"; mkdir \"$new\"; umask 022\n" + installer.build(job) +
                  "[ -x \"$new\"/" + shell_quote(job.executable) + " ] || { echo \"there is no program \"" +
                  shell_quote(job.executable) + "\" in what was installed\" >&2; exit 1; }\n" + "printf '%s\\n' " +
                  identity + " > \"$new\"/" + kMarker + "\n" +
                  // What was there without a marker is a half-made one of an earlier, killed run.
                  "rm -rf --one-file-system \"$final\"; mv -T \"$new\" \"$final\"\n";
  action.undo = "rm -rf --one-file-system " + partial + "\n" + "[ -d " + final_folder + " ] || exit 0\n" +
                "if grep -lqsF " + final_folder + "/ /var/lib/millwright/servers/*/current/run; then\n" + "  echo " +
                final_folder + "\" is in use by a server\" >&2; exit 65\nfi\n" + "if [ -e " + final_folder + "/" +
                kMarker + " ] && [ \"$(cat " + final_folder + "/" + kMarker + ")\" != " + identity + " ]; then\n" +
                "  echo " + final_folder +
                "\" was replaced by someone else since\" >&2; [ -n \"${MW_FORCE:-}\" ] || exit 65\nfi\n" +
                "rm -rf --one-file-system " + final_folder + "\n" +
                "rmdir /opt/millwright/engines /opt/millwright 2>/dev/null || :\n";
  action.undo_title = "remove " + job.folder();
  action.deadline = std::chrono::minutes(30);
  action.marks.guard_self = true;
  return action;
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
  for (const EngineInstaller* installer : {&archive_installer(), &wheel_installer()}) {
    if (installer->method() == method) return installer;
  }
  return nullptr;
}

std::vector<Question> environment_questions(const InstallJob& job) {
  const EngineInstaller* installer = find_installer(source_text(job.source, "method"));
  std::vector<Question> out;
  if (installer != nullptr) out = installer->ask(job);
  out.push_back({.key = "environment", .script = "cat " + shell_quote(marker_of(job)) + " 2>/dev/null || :\n"});
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
  if (found == wanted) return change;
  if (!found.empty()) {
    return fail(
        make_error(ErrorKind::refused, job.folder() + " holds another build of " + job.engine + " " + job.version)
            .with_hint("remove it on the node when nothing uses it, or call the new one another version"));
  }
  auto actions = installer->prepare(job, answers);
  if (!actions) return fail(actions.error());
  change.actions = std::move(*actions);
  change.actions.push_back(build_action(*installer, job));
  return change;
}

}  // namespace millwright

// An engine as a whole Python environment, made by uv to the letter of a lock: SGLang, vLLM.
//
// uv comes as a pinned wheel into /opt/millwright/tools, its cache lives beside the environments, so that files which
// several versions share are links to one copy.
#include <algorithm>
#include <map>
#include <sstream>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "steps/contract/apt_packages.hpp"
#include "steps/server/engine_installer.hpp"
#include "steps/server/python_wheels.hpp"

namespace millwright {

namespace {

constexpr const char* kCache = "/opt/millwright/cache/uv";

// What the node's answers say about where an environment would live.
struct Platform {
  std::string machine;                         // "x86_64"
  std::string c_library;                       // "2.36"; empty: not GNU
  std::map<std::string, std::string> pythons;  // version -> program
  std::string default_python;                  // version that `python3` is
  double free_mib = 0;
  bool has_cache = false;  // of uv: what another version has already costs nothing more
  std::string cpu_flags;

  static Platform read(const Answers& answers);
};

Platform Platform::read(const Answers& answers) {
  Platform out;
  for (const std::string& line : split_lines(answers.text("platform"))) {
    std::istringstream words(line);
    std::string key, first, second;
    words >> key >> first >> second;
    if (key == "machine") out.machine = first;
    if (key == "glibc") out.c_library = second;
    if (key == "free") out.free_mib = std::atof(first.c_str()) / 1024;
    if (key == "cache") out.has_cache = true;
    if (key == "flags") out.cpu_flags = " " + line.substr(6) + " ";
    if (key == "python") {
      out.pythons.emplace(first, second);
      if (out.default_python.empty()) out.default_python = first;
    }
  }
  return out;
}

// A number from the head of a lock ("# download_mib: 4889"); 0 where it has none.
double lock_number(const std::string& lock, const std::string& key) {
  const std::string wanted = "# " + key + ": ";
  const std::size_t at = lock.find(wanted);
  return at == std::string::npos ? 0 : std::atof(lock.c_str() + at + wanted.size());
}

std::string lock_text(const std::string& lock, const std::string& key) {
  const std::string wanted = "# " + key + ": ";
  const std::size_t at = lock.find(wanted);
  if (at == std::string::npos) return {};
  return std::string(trim(std::string_view(lock).substr(at + wanted.size(), lock.find('\n', at) - at - wanted.size())));
}

Error refused(const InstallJob& job, const std::string& what, const std::string& hint) {
  return make_error(ErrorKind::refused, job.engine + " " + job.version + " " + what).with_hint(hint);
}

std::vector<PinnedPackage> pinned_uv(const Value& source) {
  const Value uv = source.value("uv", Value::object());
  PinnedPackage out{"uv", source_text(uv, "version"), {}};
  for (const Value& hash : uv.value("sha256", Value::array())) out.sha256.push_back(hash.get<std::string>());
  return {out};
}

std::string uv_folder(const Value& source) {
  return std::string(kEngineRoot) + "/tools/uv-" + pinned_uv(source).front().version;
}

// Everything that comes from the index or the wheelhouse: the lock's packages and uv itself.
std::vector<PinnedPackage> all_packages(const InstallJob& job, const std::string& lock) {
  std::vector<PinnedPackage> out = parse_requirements(lock);
  for (PinnedPackage& uv : pinned_uv(job.source)) out.push_back(std::move(uv));
  return out;
}

class UvInstaller final : public EngineInstaller {
 public:
  std::string method() const override { return "uv"; }
  Milliseconds build_deadline() const override { return std::chrono::hours(3); }

  std::vector<Error> check(const Value& source) const override;
  std::string identity(const InstallJob& job) const override;
  std::vector<Question> ask(const InstallJob& job) const override;
  Result<std::vector<Action>> prepare(const InstallJob& job, const Answers& answers) const override;
  std::string build(const InstallJob& job, const Answers& answers) const override;
  std::string clean_up(const InstallJob& job) const override;

 private:
  // The Python that gets the environment, with its lock; what stands in the way, with the cure.
  struct Choice {
    std::string python;   // "3.11"
    std::string program;  // "/usr/bin/python3.11"
    std::string lock;
  };
  static Result<Choice> choose(const InstallJob& job, const Platform& platform);
  static Result<void> fits(const InstallJob& job, const Platform& platform, const std::string& lock);
  static Action install_uv(const InstallJob& job, const Choice& choice);
};

std::vector<Error> UvInstaller::check(const Value& source) const {
  std::vector<Error> errors;
  const auto report = [&errors](const std::string& what, const std::string& hint) {
    errors.push_back(make_error(ErrorKind::invalid, what).with_hint(hint));
  };
  if (source_text(source, "lock").empty() && source.value("requirements", Value::array()).empty()) {
    report("a source of method uv needs a `lock`",
           "make one: playbooks/knowledge/locks/regenerate --requirements sglang==0.5.9 --exclude-newer DATE "
           "--python 3.11 --to FILE");
  }
  if (source.contains("entry") && !source.at("entry").is_array()) {
    report("`entry` is a list of arguments for Python", "entry: [-m, sglang.launch_server]");
  }
  const std::string bundle = strip_node_prefix(source_text(source, "ca_bundle"));
  if (!bundle.empty() && bundle.front() != '/')
    report("`ca_bundle` is a path on the node", "ca_bundle: /etc/ssl/own.pem");
  return errors;
}

std::string UvInstaller::identity(const InstallJob& job) const {
  std::string all = job.launcher + job.source.value("entry", Value::array()).dump() +
                    job.source.value("provides", Value::object()).dump();
  for (const auto& [platform, lock] : job.locks) all += platform + "\n" + lock;
  return "uv sha256:" + sha256_hex(all);
}

std::vector<Question> UvInstaller::ask(const InstallJob& job) const {
  std::string names = "python3";
  for (const auto& [platform, lock] : job.locks) {
    names += " " + shell_quote("python" + platform.substr(platform.rfind("-py") + 3));
  }
  std::vector<std::string> packages = source_packages(job.source);
  packages.push_back("python3-venv");
  return {{.key = "platform",
           .script = "echo \"machine $(uname -m)\"\necho \"glibc $(getconf GNU_LIBC_VERSION 2>/dev/null || :)\"\n"
                     "d=/opt/millwright/engines; while [ ! -d \"$d\" ]; do d=$(dirname \"$d\"); done\n"
                     "echo \"free $(df -Pk \"$d\" | awk 'NR == 2 {print $4}')\"\n"
                     "[ ! -d /opt/millwright/cache/uv ] || echo cache\n"
                     "echo \"flags $(sed -n 's/^flags[[:space:]]*: //p' /proc/cpuinfo | head -n 1)\"\nfor p in " +
                     names +
                     "; do\n  p=$(command -v \"$p\") || continue\n"
                     "  v=$(\"$p\" -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])' 2>/dev/null) || continue\n"
                     "  echo \"python $v $p\"\ndone\n"},
          {.key = "venv", .script = "python3 -c 'import ensurepip, venv' 2>/dev/null && echo venv || echo bare\n"},
          {.key = "uv", .script = "cat " + shell_quote(uv_folder(job.source) + "/complete") + " 2>/dev/null || :\n"},
          {.key = "missing",
           .script = "command -v apt-get >/dev/null || { echo other; exit 0; }\n" + missing_packages_script(packages)}};
}

Result<UvInstaller::Choice> UvInstaller::choose(const InstallJob& job, const Platform& platform) {
  std::vector<std::string> known;
  for (const auto& [name, lock] : job.locks) {
    if (starts_with(name, platform.machine + "-")) known.push_back(name.substr(name.rfind("-py") + 3));
  }
  if (known.empty()) {
    return fail(refused(job, "has no lock for " + platform.machine + " machines",
                        "make one and name it in `sources` as `lock`: playbooks/knowledge/locks/regenerate --help"));
  }
  std::vector<std::string> candidates = {platform.default_python};
  for (const auto& [version, program] : platform.pythons) candidates.push_back(version);
  for (const std::string& version : candidates) {
    const auto program = platform.pythons.find(version);
    const auto lock = job.locks.find(platform.machine + "-py" + version);
    if (program != platform.pythons.end() && lock != job.locks.end()) {
      return Choice{version, program->second, lock->second};
    }
  }
  std::vector<std::string> found;
  for (const auto& [version, program] : platform.pythons) found.push_back(version);
  return fail(refused(
      job, "runs on Python " + join(known, ", ") + "; the node has " + (found.empty() ? "none" : join(found, ", ")),
      "install python" + known.back() +
          " on the node, or serve from a container of a release that has "
          "one of these (Debian 12: 3.11, Ubuntu 24.04: 3.12)"));
}

Result<void> UvInstaller::fits(const InstallJob& job, const Platform& platform, const std::string& lock) {
  const std::string wanted = lock_text(lock, "glibc");
  if (platform.c_library.empty()) {
    return fail(refused(job, "needs the GNU C library, which the node does not have",
                        "serve from a container of Debian or Ubuntu"));
  }
  const auto have = Version::parse(platform.c_library);
  const auto want = Version::parse(wanted);
  if (have && want && *have < *want) {
    return fail(refused(job, "needs the C library " + wanted + ", the node has " + platform.c_library,
                        "serve from a container of a newer release (Debian 12 has 2.36, Ubuntu 22.04 has 2.35)"));
  }
  for (const Value& feature : job.source.value("cpu_features", Value::array())) {
    const std::string name = feature.get<std::string>();
    if (platform.cpu_flags.find(" " + name + " ") == std::string::npos) {
      return fail(refused(job, "needs a processor with " + name + ", which the node's does not have",
                          "in a virtual machine: give it the host's processor (cpu: host); else another host"));
    }
  }
  // Unpacked, wheels take about twice their size (SGLang 0.5.9: 4.8 GiB are 9.8 GiB, lab); how much of that an
  // environment beside it has already is not known, so then only the impossible is refused.
  const double least = lock_number(lock, "download_mib") * (platform.has_cache ? 0.5 : 2.0);
  if (least > 0 && platform.free_mib > 0 && platform.free_mib < least) {
    return fail(refused(job,
                        "needs at least " + format_size(static_cast<std::uint64_t>(least * 1024 * 1024)) +
                            " under /opt/millwright, where " +
                            format_size(static_cast<std::uint64_t>(platform.free_mib * 1024 * 1024)) + " are free",
                        "free some space (`millwright releases HOST` shows what engines cost), or mount a disk at "
                        "/opt/millwright")
                    .with_class("disk_full"));
  }
  return {};
}

Result<std::vector<Action>> UvInstaller::prepare(const InstallJob& job, const Answers& answers) const {
  const Platform platform = Platform::read(answers);
  auto choice = choose(job, platform);
  if (!choice) return fail(choice.error());
  if (auto good = fits(job, platform, choice->lock); !good) return fail(good.error());
  std::vector<Action> out;
  const bool bare = answers.text("venv") == "bare";
  std::vector<std::string> missing = split_lines(answers.text("missing"));
  const bool other = missing == std::vector<std::string>{"other"};
  if (bare && other) {
    return fail(refused(job, "needs a Python that can make virtual environments",
                        "install the package that has Python's venv and ensurepip modules"));
  }
  if (!bare) missing.erase(std::remove(missing.begin(), missing.end(), "python3-venv"), missing.end());
  if (!other && !missing.empty()) out.push_back(install_packages_action(missing));
  const std::string wheelhouse = source_text(job.source, "wheelhouse");
  const std::vector<PinnedPackage> packages = all_packages(job, choice->lock);
  if (!wheelhouse.empty() && !is_on_node(wheelhouse)) {
    const std::size_t here = wheels_here(wheelhouse, packages).size();
    const bool has_uv = answers.text("uv") == requirements_text(pinned_uv(job.source));
    if (here + (has_uv ? 1 : 0) < packages.size()) {
      return fail(refused(job,
                          "needs " + std::to_string(packages.size()) + " wheels, of which " + wheelhouse + " has " +
                              std::to_string(here),
                          "pip download --no-deps --require-hashes -r LOCK -d " + wheelhouse));
    }
  }
  for (Action& action : upload_wheels(job.source, packages, job.engine + " " + job.version)) {
    out.push_back(std::move(action));
  }
  if (answers.text("uv") + "\n" != requirements_text(pinned_uv(job.source))) out.push_back(install_uv(job, *choice));
  return out;
}

Action UvInstaller::install_uv(const InstallJob& job, const Choice& choice) {
  const std::string folder = shell_quote(uv_folder(job.source));
  const std::string wheelhouse = wheelhouse_on_node(job.source, all_packages(job, choice.lock));
  const std::string wanted = shell_quote(requirements_text(pinned_uv(job.source)));
  Action action;
  action.title = "install uv " + pinned_uv(job.source).front().version + " in " + uv_folder(job.source);
  action.script = "final=" + folder + "; new=$final.partial; umask 022\nmkdir -p /opt/millwright/tools\n" +
                  "rm -rf --one-file-system \"$new\"\n" + download_settings(job.source) + "python3 -m venv \"$new\"\n" +
                  "printf '%s' " + wanted + " >\"$new/requirements.txt\"\n" +
                  "\"$new/bin/python\" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir "
                  "--no-deps --only-binary :all: --require-hashes -r \"$new/requirements.txt\"" +
                  (wheelhouse.empty() ? "" : " --no-index --find-links " + shell_quote(wheelhouse)) + "\n" +
                  "\"$new/bin/uv\" --version >/dev/null\ncp \"$new/requirements.txt\" \"$new/complete\"\n" +
                  "rm -rf --one-file-system \"$final\"; mv -T \"$new\" \"$final\"\n";
  action.undo = "rm -rf --one-file-system " + folder + ".partial\n" +
                "[ -z \"$(ls -A /opt/millwright/engines 2>/dev/null)\" ] || exit 0\n" + "rm -rf --one-file-system " +
                folder + "\nrmdir /opt/millwright/tools /opt/millwright 2>/dev/null || :\n";
  action.undo_title = "remove uv where no other engine needs it";
  action.deadline = std::chrono::minutes(30);
  action.marks.guard_self = true;
  return action;
}

std::string UvInstaller::build(const InstallJob& job, const Answers& answers) const {
  const auto choice = choose(job, Platform::read(answers));
  if (!choice) return "echo " + shell_quote(choice.error().message) + " >&2; exit 1\n";
  const std::vector<PinnedPackage> packages = all_packages(job, choice->lock);
  const std::string wheelhouse = wheelhouse_on_node(job.source, packages);
  const std::string site = "\"$new\"/lib/python" + choice->python + "/site-packages";
  std::string out =
      download_settings(job.source) + "UV_CACHE_DIR=" + kCache +
      "; UV_LINK_MODE=hardlink; UV_NO_PROGRESS=1; UV_NO_CONFIG=1\n"
      "UV_PYTHON_DOWNLOADS=never; UV_HTTP_TIMEOUT=300; HOME=$new\n"
      "export UV_CACHE_DIR UV_LINK_MODE UV_NO_PROGRESS UV_NO_CONFIG UV_PYTHON_DOWNLOADS UV_HTTP_TIMEOUT HOME\n"
      // A cache that this makes goes again with a build that fails: a full disk stays as full as it was.
      "mkdir -p /opt/millwright/cache; chmod 0700 /opt/millwright/cache\n"
      "[ -d \"$UV_CACHE_DIR\" ] || fresh=$UV_CACHE_DIR\n"
      "printf '%s' " +
      shell_quote(choice->lock) + " >\"$new/lock.txt\"\nuv=" + shell_quote(uv_folder(job.source) + "/bin/uv") +
      "\n\"$uv\" venv --quiet --allow-existing --relocatable --python " + shell_quote(choice->program) + " \"$new\"\n" +
      "\"$uv\" pip install --python \"$new/bin/python\" --no-deps --require-hashes" +
      (lock_text(choice->lock, "built_from_source").empty() ? " --no-build" : "") +
      (wheelhouse.empty() ? "" : " --offline --no-index --find-links " + shell_quote(wheelhouse)) +
      " -r \"$new/lock.txt\"\n";
  const Value provides = job.source.value("provides", Value::object());
  for (const auto& [name, version] : provides.items()) {
    const std::string folder = site + "/" + shell_quote(name + "-" + version.get<std::string>() + ".dist-info");
    out += "mkdir " + folder + "\nprintf '%s\\n' 'Metadata-Version: 2.1' " + shell_quote("Name: " + name) + " " +
           shell_quote("Version: " + version.get<std::string>()) + " >" + folder + "/METADATA\n";
  }
  out += program_script(job);
  return out + remove_uploaded_wheels(job.source, packages);
}

std::string UvInstaller::clean_up(const InstallJob& job) const {
  // Files in the cache are links to those of the environments: it costs disk only for what no environment has.
  return "if [ -z \"$others\" ]; then\n  rm -rf --one-file-system " + std::string(kCache) + " " +
         shell_quote(uv_folder(job.source)) + "\nfi\n" +
         "rmdir /opt/millwright/cache /opt/millwright/tools 2>/dev/null || :\n";
}

}  // namespace

const EngineInstaller& uv_installer() {
  static const UvInstaller installer;
  return installer;
}

}  // namespace millwright

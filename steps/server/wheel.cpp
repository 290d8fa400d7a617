// An engine as Python wheels, pinned with hashes, in a virtual environment of its own.
#include <algorithm>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "steps/contract/apt_packages.hpp"
#include "steps/server/engine_installer.hpp"
#include "steps/server/python_wheels.hpp"

namespace millwright {

namespace {

std::vector<PinnedPackage> pinned(const Value& source) {
  std::vector<PinnedPackage> out;
  for (const Value& package : source.value("packages", Value::array())) {
    PinnedPackage one{source_text(package, "name"), source_text(package, "version"), {}};
    for (const Value& hash : package.value("sha256", Value::array())) one.sha256.push_back(hash.get<std::string>());
    out.push_back(std::move(one));
  }
  return out;
}

std::string requirements(const Value& source) { return requirements_text(pinned(source)); }

class WheelInstaller final : public EngineInstaller {
 public:
  std::string method() const override { return "wheel"; }

  std::vector<Error> check(const Value& source) const override {
    std::vector<Error> errors;
    const Value packages = source.value("packages", Value::array());
    if (!packages.is_array() || packages.empty()) {
      errors.push_back(make_error(ErrorKind::invalid, "wheels need `packages`")
                           .with_hint("packages: [{name: xllamacpp, version: ..., sha256: [...]}]"));
    }
    for (const Value& package : packages) {
      if (!package.is_object() || package.value("sha256", Value::array()).empty()) {
        errors.push_back(make_error(ErrorKind::invalid, "package " + package.dump() + " needs name, version and sha256")
                             .with_hint("sha256 lists the hashes of its wheel files: pip hash FILE.whl"));
      }
    }
    const std::string wheelhouse = source_text(source, "wheelhouse");
    if (errors.empty() && !wheelhouse.empty() && !is_on_node(wheelhouse) &&
        wheels_here(wheelhouse, pinned(source)).empty()) {
      errors.push_back(make_error(ErrorKind::invalid, "the folder " + wheelhouse + " has none of the wheels here")
                           .with_hint("pip download --no-deps -d " + wheelhouse + " ..., or node:/path"));
    }
    return errors;
  }

  std::string identity(const InstallJob& job) const override {
    return "wheel sha256:" + sha256_hex(requirements(job.source) + job.launcher);
  }

  std::vector<Question> ask(const InstallJob& job) const override {
    std::vector<std::string> packages = source_packages(job.source);
    packages.push_back("python3-venv");
    return {
        {.key = "python",
         .script = "if ! command -v python3 >/dev/null; then echo none; exit 0; fi\n"
                   "python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'\n"
                   "python3 -c 'import ensurepip, venv' 2>/dev/null && echo venv || echo bare\n"},
        {.key = "missing",
         .script = "command -v apt-get >/dev/null || { echo other; exit 0; }\n" + missing_packages_script(packages)}};
  }

  Result<std::vector<Action>> prepare(const InstallJob& job, const Answers& answers) const override {
    std::vector<Action> out;
    const std::vector<std::string> python = split_lines(answers.text("python"));
    const bool none = python.empty() || python[0] == "none";
    const bool bare = none || (python.size() > 1 && python[1] == "bare");
    if (auto enough = python_enough(job, none ? "" : python[0]); !enough) return fail(enough.error());
    std::vector<std::string> missing = split_lines(answers.text("missing"));
    const bool other = missing == std::vector<std::string>{"other"};
    if (bare && other) {
      return fail(make_error(ErrorKind::refused, "the node's Python cannot make virtual environments")
                      .with_hint("install the package that has Python's venv and ensurepip modules"));
    }
    // A Python that brings venv itself needs no package for it.
    if (!bare) missing.erase(std::remove(missing.begin(), missing.end(), "python3-venv"), missing.end());
    if (!other && !missing.empty()) out.push_back(install_packages_action(missing));
    for (Action& action : upload_wheels(job.source, pinned(job.source), job.engine + " " + job.version)) {
      out.push_back(std::move(action));
    }
    return out;
  }

  std::string build(const InstallJob& job, const Answers&) const override {
    const std::string wheelhouse = wheelhouse_on_node(job.source, pinned(job.source));
    std::string out =
        "python3 -m venv \"$new\"\nprintf '%s' " + shell_quote(requirements(job.source)) +
        " > \"$new/requirements.txt\"\n" + download_settings(job.source) +
        "\"$new/bin/python\" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir "
        "--no-deps --only-binary :all: --require-hashes -r \"$new/requirements.txt\"";
    if (!wheelhouse.empty()) out += " --no-index --find-links " + shell_quote(wheelhouse);
    out += "\n";
    out += program_script(job);
    // Scripts that pip made name the folder that the environment was built in.
    out += "grep -rlIF \"$new\" \"$new/bin\" \"$new/pyvenv.cfg\" | xargs -r sed -i \"s|$new|$final|g\"\n";
    return out + remove_uploaded_wheels(job.source, pinned(job.source));
  }

 private:
  static Result<void> python_enough(const InstallJob& job, const std::string& found) {
    const std::string minimum = source_text(job.source, "min_python");
    if (found.empty() || minimum.empty()) return {};
    const auto have = Version::parse(found);
    const auto want = Version::parse(minimum);
    if (!have || !want || *have >= *want) return {};
    return fail(make_error(ErrorKind::refused,
                           job.engine + " " + job.version + " needs Python " + minimum + ", the node has " + found)
                    .with_hint("use a container of a newer release, or install it as an archive"));
  }
};

}  // namespace

const EngineInstaller& wheel_installer() {
  static const WheelInstaller installer;
  return installer;
}

}  // namespace millwright

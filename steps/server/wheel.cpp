// An engine as Python wheels, pinned with hashes, in a virtual environment of its own.
#include <algorithm>
#include <filesystem>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "steps/contract/apt_packages.hpp"
#include "steps/server/engine_installer.hpp"

namespace fs = std::filesystem;

namespace millwright {

namespace {

// "Foo.Bar" and "foo_bar" are the same project (PEP 503); file names of wheels use "_".
std::string file_stem(std::string name) {
  for (char& c : name) {
    if (c == '-' || c == '.') c = '_';
    c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return name;
}

std::vector<fs::path> local_wheels(const Value& source) {
  std::vector<fs::path> out;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(source_text(source, "wheelhouse"), failure)) {
    const std::string name = entry.path().filename().string();
    for (const Value& package : source.value("packages", Value::array())) {
      const std::string prefix = file_stem(source_text(package, "name")) + "-" + source_text(package, "version") + "-";
      if (starts_with(file_stem(name.substr(0, name.find('-'))) + name.substr(std::min(name.find('-'), name.size())),
                      prefix) &&
          ends_with(name, ".whl")) {
        out.push_back(entry.path());
      }
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string requirements(const Value& source) {
  std::string out;
  for (const Value& package : source.value("packages", Value::array())) {
    out += source_text(package, "name") + "==" + source_text(package, "version");
    for (const Value& hash : package.value("sha256", Value::array()))
      out += " --hash=sha256:" + hash.get<std::string>();
    out += "\n";
  }
  return out;
}

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
    if (errors.empty() && !wheelhouse.empty() && !is_on_node(wheelhouse) && local_wheels(source).empty()) {
      errors.push_back(make_error(ErrorKind::invalid, "the folder " + wheelhouse + " has none of the wheels here")
                           .with_hint("pip download --no-deps -d " + wheelhouse + " ..., or node:/path"));
    }
    return errors;
  }

  std::string identity(const InstallJob& job) const override {
    return "wheel sha256:" + sha256_hex(requirements(job.source) + job.launcher);
  }

  std::vector<Question> ask(const InstallJob& job) const override {
    std::vector<std::string> packages = apt_packages(job.source);
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
    const std::string wheelhouse = source_text(job.source, "wheelhouse");
    if (!wheelhouse.empty() && !is_on_node(wheelhouse)) upload_wheels(job, out);
    return out;
  }

  std::string build(const InstallJob& job) const override {
    const std::string wheelhouse = source_text(job.source, "wheelhouse");
    std::string out =
        "python3 -m venv \"$new\"\nprintf '%s' " + shell_quote(requirements(job.source)) +
        " > \"$new/requirements.txt\"\n" +
        // pip does not read the system's certificates by itself.
        "if [ -e /etc/ssl/certs/ca-certificates.crt ]; then\n"
        "  PIP_CERT=/etc/ssl/certs/ca-certificates.crt; export PIP_CERT\nfi\n"
        "\"$new/bin/python\" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir "
        "--no-deps --only-binary :all: --require-hashes -r \"$new/requirements.txt\"";
    if (!wheelhouse.empty()) out += " --no-index --find-links " + shell_quote(wheels_on_node(job));
    out += "\n";
    if (!job.launcher.empty()) {
      const std::string executable = "\"$new\"/" + shell_quote(job.executable);
      out += "printf '%s' " + shell_quote(job.launcher) + " > \"$new/launcher.py\"\n" +
             "printf '%s\\n' '#!/bin/sh' 'exec \"$(dirname \"$(readlink -f \"$0\")\")/python\" -u " +
             "\"$(dirname \"$(readlink -f \"$0\")\")/../launcher.py\" \"$@\"' > " + executable + "\nchmod 0755 " +
             executable + "\n";
    }
    // Scripts that pip made name the folder that the environment was built in.
    out += "grep -rlIF \"$new\" \"$new/bin\" \"$new/pyvenv.cfg\" | xargs -r sed -i \"s|$new|$final|g\"\n";
    if (!wheelhouse.empty() && !is_on_node(wheelhouse)) out += "rm -rf " + shell_quote(wheels_on_node(job)) + "\n";
    return out;
  }

 private:
  static std::vector<std::string> apt_packages(const Value& source) {
    std::vector<std::string> out;
    for (const Value& name : source.value("apt", Value::array())) out.push_back(name);
    return out;
  }

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

  static std::string wheels_on_node(const InstallJob& job) {
    const std::string wheelhouse = source_text(job.source, "wheelhouse");
    if (is_on_node(wheelhouse)) return strip_node_prefix(wheelhouse);
    return std::string(kUploads) + "/wheels-" + sha256_hex(requirements(job.source)).substr(0, 16);
  }

  static void upload_wheels(const InstallJob& job, std::vector<Action>& out) {
    const std::string folder = wheels_on_node(job);
    Action make;
    make.title = "make " + folder;
    make.script = "mkdir -p " + shell_quote(folder) + "; chmod 0700 " + kUploads + "\n";
    make.undo = "rm -rf " + shell_quote(folder) + "; rmdir " + kUploads + " 2>/dev/null || :\n";
    make.undo_title = "remove the folder of the wheels";
    make.marks.guard_self = true;
    out.push_back(make);
    Action send;
    send.title = "send the wheels of " + job.engine + " " + job.version;
    for (const fs::path& wheel : local_wheels(job.source)) {
      FilePlacement file;
      file.path = folder + "/" + wheel.filename().string();
      file.local_path = wheel.string();
      file.mode = "0600";
      send.files.push_back(file);
    }
    send.script = ":\n";
    send.undo = "rm -rf " + shell_quote(folder) + "\n";
    send.undo_title = "remove the uploaded wheels";
    send.deadline = std::chrono::minutes(30);
    send.marks.guard_self = true;
    out.push_back(send);
  }
};

}  // namespace

const EngineInstaller& wheel_installer() {
  static const WheelInstaller installer;
  return installer;
}

}  // namespace millwright

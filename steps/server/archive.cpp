// An engine as a release archive: a URL or a path, and its SHA-256. The shape of llama.cpp's own releases.
#include <filesystem>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/server/engine_installer.hpp"
#include "steps/server/python_wheels.hpp"

namespace millwright {

namespace {

Error problem(std::string message, std::string hint) {
  return make_error(ErrorKind::invalid, std::move(message)).with_hint(std::move(hint));
}

class ArchiveInstaller final : public EngineInstaller {
 public:
  std::string method() const override { return "archive"; }

  std::vector<Error> check(const Value& source) const override {
    std::vector<Error> errors;
    const std::string path = source_text(source, "path");
    if (path.empty() == source_text(source, "url").empty()) {
      errors.push_back(problem("an archive needs either `url` or `path`", "path: ./llama.cpp.tar.gz, or node:/path"));
    }
    if (source_text(source, "sha256").size() != 64) {
      errors.push_back(problem("an archive needs its sha256 (64 hexadecimal digits)", "sha256sum FILE"));
    }
    if (!path.empty() && !is_on_node(path) && !std::filesystem::is_regular_file(path)) {
      errors.push_back(problem("there is no file " + path + " here", "for a file on the node write node:/path"));
    }
    return errors;
  }

  std::string identity(const InstallJob& job) const override {
    return "archive sha256:" + source_text(job.source, "sha256");
  }

  std::vector<Question> ask(const InstallJob&) const override { return {}; }

  Result<std::vector<Action>> prepare(const InstallJob& job, const Answers&) const override {
    std::vector<Action> out;
    const std::string path = source_text(job.source, "path");
    if (path.empty() || is_on_node(path)) return out;
    Action folder;
    folder.title = std::string("make ") + kUploads;
    folder.script = std::string("mkdir -p ") + kUploads + "; chmod 0700 " + kUploads + "\n";
    folder.undo = std::string("rmdir ") + kUploads + " 2>/dev/null || :\n";
    folder.undo_title = "remove the folder of uploads when empty";
    folder.marks.guard_self = true;
    out.push_back(folder);
    Action upload;
    upload.title = "send " + path;
    FilePlacement file;
    file.path = archive_on_node(job);
    file.local_path = path;
    file.mode = "0600";
    upload.files.push_back(file);
    upload.script = ":\n";
    upload.undo = "rm -f " + shell_quote(archive_on_node(job)) + "\n";
    upload.undo_title = "remove the uploaded archive";
    upload.deadline = std::chrono::minutes(30);
    upload.marks.guard_self = true;
    out.push_back(upload);
    return out;
  }

  std::string build(const InstallJob& job, const Answers&) const override {
    const std::string url = source_text(job.source, "url");
    const std::string archive = url.empty() ? shell_quote(archive_on_node(job)) : "\"$new.archive\"";
    const std::string sha256 = shell_quote(source_text(job.source, "sha256"));
    std::string out;
    if (!url.empty()) {
      out += download_settings(job.source) + "curl -fsSL --retry 3 --connect-timeout 20 -o " + archive + " -- " +
             shell_quote(url) + "\n";
    }
    out += "have=$(sha256sum " + archive + " | cut -d ' ' -f 1)\n" + "[ \"$have\" = " + sha256 +
           " ] || { echo \"the archive has SHA-256 $have, wanted \"" + sha256 + " >&2; exit 1; }\n" +
           "tar -C \"$new\" --no-same-owner -xf " + archive + "\n" +
           // Upstream's releases have one folder at the top, or build/bin/; the executable is found by its name and
           // linked, so that its libraries stay beside it.
           "if [ ! -e \"$new\"/" + shell_quote(job.executable) + " ]; then\n" +
           "  found=$(cd \"$new\"; find . -type f -name " + shell_quote(file_name(job.executable)) +
           " -perm -u+x | head -n 1)\n" + "  if [ -n \"$found\" ]; then mkdir -p \"$new\"/" +
           shell_quote(folder_name(job.executable)) + "; ln -s \"../$found\" \"$new\"/" + shell_quote(job.executable) +
           "; fi\nfi\n";
    if (!is_on_node(source_text(job.source, "path"))) out += "rm -f " + archive + "\n";
    return out;
  }

 private:
  static std::string archive_on_node(const InstallJob& job) {
    const std::string path = source_text(job.source, "path");
    if (is_on_node(path)) return strip_node_prefix(path);
    return std::string(kUploads) + "/engine-" + source_text(job.source, "sha256");
  }
  static std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  static std::string folder_name(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
  }
};

}  // namespace

const EngineInstaller& archive_installer() {
  static const ArchiveInstaller installer;
  return installer;
}

}  // namespace millwright

#include "steps/server/python_wheels.hpp"

#include <algorithm>
#include <sstream>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace fs = std::filesystem;

namespace millwright {

namespace {

constexpr std::string_view kHash = "--hash=sha256:";

// "Foo.Bar" and "foo_bar" are the same project (PEP 503); file names of wheels use "_".
std::string file_stem(std::string name) {
  for (char& c : name) {
    if (c == '-' || c == '.') c = '_';
    c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return name;
}

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

bool is_wheel_of(const std::string& file, const PinnedPackage& package) {
  const std::size_t dash = std::min(file.find('-'), file.size());
  return ends_with(file, ".whl") && file_stem(file.substr(0, dash)) == file_stem(package.name) &&
         starts_with(file.substr(dash), "-" + package.version + "-");
}

}  // namespace

std::string requirements_text(const std::vector<PinnedPackage>& packages) {
  std::string out;
  for (const PinnedPackage& package : packages) {
    out += package.name + "==" + package.version;
    for (const std::string& hash : package.sha256) out += " " + std::string(kHash) + hash;
    out += "\n";
  }
  return out;
}

std::vector<PinnedPackage> parse_requirements(const std::string& text) {
  std::vector<PinnedPackage> out;
  // A backslash at the end of a line joins it with the next.
  for (const std::string& line : split_lines(replace_all(text, "\\\n", " "))) {
    if (starts_with(trim(line), "#")) continue;
    const std::vector<std::string> words = split_words(line);
    if (words.empty()) continue;
    const std::size_t equals = words[0].find("==");
    if (equals == std::string::npos) continue;
    PinnedPackage package{words[0].substr(0, equals), words[0].substr(equals + 2), {}};
    for (const std::string& word : words) {
      if (starts_with(word, kHash)) package.sha256.push_back(word.substr(kHash.size()));
    }
    out.push_back(std::move(package));
  }
  return out;
}

std::vector<fs::path> wheels_here(const std::string& folder, const std::vector<PinnedPackage>& packages) {
  std::vector<fs::path> out;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failure)) {
    const std::string name = entry.path().filename().string();
    const bool wanted = std::any_of(packages.begin(), packages.end(),
                                    [&](const PinnedPackage& package) { return is_wheel_of(name, package); });
    if (wanted) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> source_packages(const Value& source) {
  std::vector<std::string> out;
  for (const Value& name : source.value("apt", Value::array())) out.push_back(name.get<std::string>());
  return out;
}

std::string wheelhouse_on_node(const Value& source, const std::vector<PinnedPackage>& packages) {
  const std::string wheelhouse = source_text(source, "wheelhouse");
  if (wheelhouse.empty()) return {};
  if (is_on_node(wheelhouse)) return strip_node_prefix(wheelhouse);
  return std::string(kUploads) + "/wheels-" + sha256_hex(requirements_text(packages)).substr(0, 16);
}

std::vector<Action> upload_wheels(const Value& source, const std::vector<PinnedPackage>& packages,
                                  const std::string& what) {
  const std::string wheelhouse = source_text(source, "wheelhouse");
  if (wheelhouse.empty() || is_on_node(wheelhouse)) return {};
  const std::string folder = wheelhouse_on_node(source, packages);
  Action make;
  make.title = "make " + folder;
  make.script = "mkdir -p " + shell_quote(folder) + "; chmod 0700 " + kUploads + "\n";
  make.undo = "rm -rf " + shell_quote(folder) + "; rmdir " + kUploads + " 2>/dev/null || :\n";
  make.undo_title = "remove the folder of the wheels";
  make.marks.guard_self = true;
  Action send;
  send.title = "send the wheels of " + what;
  for (const fs::path& wheel : wheels_here(wheelhouse, packages)) {
    FilePlacement file;
    file.path = folder + "/" + wheel.filename().string();
    file.local_path = wheel.string();
    file.mode = "0600";
    send.files.push_back(std::move(file));
  }
  send.script = ":\n";
  send.undo = "rm -rf " + shell_quote(folder) + "\n";
  send.undo_title = "remove the uploaded wheels";
  send.deadline = std::chrono::hours(3);
  send.marks.guard_self = true;
  return {std::move(make), std::move(send)};
}

std::string remove_uploaded_wheels(const Value& source, const std::vector<PinnedPackage>& packages) {
  const std::string wheelhouse = source_text(source, "wheelhouse");
  if (wheelhouse.empty() || is_on_node(wheelhouse)) return {};
  return "rm -rf " + shell_quote(wheelhouse_on_node(source, packages)) + "\n";
}

std::string program_script(const InstallJob& job) {
  const Value entry = job.source.value("entry", Value::array());
  if (job.launcher.empty() && entry.empty()) return {};
  // By its own place, so that the environment can be moved and linked to.
  const std::string here = "\"$(dirname \"$(readlink -f \"$0\")\")";
  std::string start = "exec " + here + "/python\" ";
  std::string out;
  if (job.launcher.empty()) {
    start += shell_join(entry.get<std::vector<std::string>>());
  } else {
    out += "printf '%s' " + shell_quote(job.launcher) + " >\"$new/launcher.py\"\n";
    start += "-u " + here + "/../launcher.py\"";
  }
  const std::string program = "\"$new\"/" + shell_quote(job.executable);
  return out + "printf '%s\\n' '#!/bin/sh' " + shell_quote(start + " \"$@\"") + " >" + program + "\nchmod 0755 " +
         program + "\n";
}

std::string download_settings(const Value& source) {
  std::string out;
  const auto set = [&out](const std::string& names, const std::string& value) {
    for (const std::string& name : split_words(names)) {
      out += name + "=" + shell_quote(value) + "; export " + name + "\n";
    }
  };
  if (const std::string proxy = source_text(source, "proxy"); !proxy.empty()) {
    set("HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy", proxy);
  }
  if (const std::string direct = source_text(source, "no_proxy"); !direct.empty()) set("NO_PROXY no_proxy", direct);
  const std::string bundle = strip_node_prefix(source_text(source, "ca_bundle"));
  if (!bundle.empty()) {
    set("PIP_CERT SSL_CERT_FILE CURL_CA_BUNDLE", bundle);
  } else {
    // Neither pip nor uv reads the system's certificates by itself.
    out +=
        "if [ -e /etc/ssl/certs/ca-certificates.crt ]; then\n"
        "  PIP_CERT=/etc/ssl/certs/ca-certificates.crt; SSL_CERT_FILE=$PIP_CERT; export PIP_CERT SSL_CERT_FILE\nfi\n";
  }
  if (const std::string index = source_text(source, "index"); !index.empty()) {
    set("PIP_INDEX_URL UV_DEFAULT_INDEX", index);
  } else {
    out +=
        "index=$(sed -n 's/^ *index[-_]url *= *//p' /etc/pip.conf /root/.config/pip/pip.conf /root/.pip/pip.conf "
        "2>/dev/null | tail -n 1) || :\n"
        "if [ -n \"$index\" ]; then UV_DEFAULT_INDEX=$index; export UV_DEFAULT_INDEX; fi\n";
  }
  return out;
}

}  // namespace millwright

#include "orchestrator/journal/evidence_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace millwright {

namespace {

Failure system_failure(const std::string& doing, const std::string& path) {
  return fail(ErrorKind::io, fmt::format("{} {}: {}", doing, path, std::strerror(errno)));
}

// "answer.json" -> "answer-2.json": the ending stays, so that viewers know what it is.
std::string numbered(const std::string& name, int number) {
  if (number == 1) return name;
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0) return fmt::format("{}-{}", name, number);
  return fmt::format("{}-{}{}", name.substr(0, dot), number, name.substr(dot));
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(file, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return fsync(file) == 0;
}

}  // namespace

Result<void> make_private_directory(const std::string& path) {
  const std::filesystem::path whole(path);
  std::filesystem::path so_far;
  for (const std::filesystem::path& part : whole) {
    so_far /= part;
    if (so_far.empty() || so_far == "/") continue;
    if (mkdir(so_far.c_str(), 0700) != 0 && errno != EEXIST) return system_failure("making", so_far.string());
  }
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return system_failure("looking at", path);
  if (!S_ISDIR(info.st_mode)) {
    errno = ENOTDIR;
    return system_failure("making", path);
  }
  return {};
}

Result<std::string> write_evidence(const std::string& folder, const std::string& name, std::string_view bytes) {
  if (Result<void> made = make_private_directory(folder); !made) return fail(made.error());
  for (int number = 1;; ++number) {
    const std::string path = folder + "/" + numbered(name, number);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) return system_failure("making", path);
    const bool whole = write_all(file, bytes);
    const int problem = errno;
    close(file);
    if (whole) return path;
    unlink(path.c_str());
    errno = problem;
    return system_failure("writing", path);
  }
}

}  // namespace millwright

#include "steps/model/hash_memo.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "orchestrator/base/text.hpp"

namespace fs = std::filesystem;

namespace millwright {

namespace {

// Coarser than the clock of any file system that models lie on.
constexpr std::time_t kTooLately = 3;

std::string text_of(const timespec& time) { return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec); }

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string file_state(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return std::to_string(info.st_dev) + " " + std::to_string(info.st_ino) + " " + std::to_string(info.st_size) + " " +
         text_of(info.st_mtim) + " " + text_of(info.st_ctim);
}

HashMemo HashMemo::of_this_user() {
  const std::string cache = variable("XDG_CACHE_HOME");
  const std::string home = variable("HOME");
  if (!cache.empty()) return HashMemo(cache + "/millwright/sha256");
  return HashMemo(home.empty() ? "" : home + "/.cache/millwright/sha256");
}

std::string HashMemo::entry(const std::string& path) const {
  std::error_code failed;
  const fs::path whole = fs::canonical(path, failed);
  return failed ? "" : folder_ + "/" + sha256_hex(whole.string());
}

std::optional<std::string> HashMemo::find(const std::string& path, const std::string& state) const {
  if (folder_.empty() || state.empty()) return std::nullopt;
  std::ifstream in(entry(path));
  std::string kept, sha256;
  if (!std::getline(in, kept) || !std::getline(in, sha256) || kept != state || sha256.size() != 64) return std::nullopt;
  return sha256;
}

void HashMemo::keep(const std::string& path, const std::string& state, const std::string& sha256) const {
  struct stat info {};
  if (folder_.empty() || ::stat(path.c_str(), &info) != 0 || file_state(path) != state) return;
  if (std::time(nullptr) - info.st_ctim.tv_sec < kTooLately) return;
  const std::string name = entry(path);
  std::error_code failed;
  fs::create_directories(folder_, failed);
  fs::permissions(folder_, fs::perms::owner_all, failed);
  if (name.empty() || failed) return;
  const std::string fresh = name + "." + std::to_string(::getpid());
  {
    std::ofstream out(fresh);
    out << state << "\n" << sha256 << "\n";
    if (!out.flush()) failed = std::make_error_code(std::errc::io_error);
  }
  if (!failed) fs::rename(fresh, name, failed);
  if (failed) fs::remove(fresh, failed);
}

}  // namespace millwright

#include "orchestrator/journal/remedy_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "orchestrator/base/read_file.hpp"
#include "orchestrator/journal/evidence_files.hpp"

namespace millwright {

namespace {

constexpr int kSchema = 1;
// Rows beyond kMost are dropped, so no file of ours is as long.
constexpr std::size_t kLongest = 8u << 20;

Failure system_failure(const std::string& doing, const std::string& path) {
  return fail(ErrorKind::io, fmt::format("{} {}: {}", doing, path, std::strerror(errno)));
}

Failure damaged(const std::string& path, const std::string& what) {
  return fail(make_error(ErrorKind::invalid, path + " is damaged: " + what)
                  .with_hint("what has cured which fault before is not known until it is deleted or repaired; the next "
                             "cure moves it aside"));
}

// Closes, and so unlocks, at its end.
class FileLock {
 public:
  explicit FileLock(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    while (file_ >= 0 && flock(file_, LOCK_EX) != 0) {
      if (errno == EINTR) continue;
      close(file_);
      file_ = -1;
    }
  }
  ~FileLock() {
    if (file_ >= 0) close(file_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  bool held() const { return file_ >= 0; }

 private:
  int file_;
};

std::string text_of(const Value& row, const char* key) {
  const auto found = row.find(key);
  if (found == row.end() || !found->is_string()) throw std::invalid_argument(key);
  return found->get<std::string>();
}

WorkedRemedy row_of(const Value& row) {
  WorkedRemedy out;
  out.symptom_class = text_of(row, "class");
  out.engine = text_of(row, "engine");
  out.version = text_of(row, "version");
  out.model = text_of(row, "model");
  out.remedy = text_of(row, "remedy");
  out.host = text_of(row, "host");
  out.at = text_of(row, "at");
  if (!row.contains("set") || !row.at("set").is_object()) throw std::invalid_argument("set");
  out.set = row.at("set");
  return out;
}

Value value_of(const WorkedRemedy& row) {
  return {{"class", row.symptom_class}, {"engine", row.engine}, {"version", row.version}, {"model", row.model},
          {"remedy", row.remedy},       {"set", row.set},       {"host", row.host},       {"at", row.at}};
}

bool same_cure(const WorkedRemedy& a, const WorkedRemedy& b) {
  return a.symptom_class == b.symptom_class && a.engine == b.engine && a.version == b.version && a.model == b.model &&
         a.remedy == b.remedy && a.set == b.set;
}

}  // namespace

bool WorkedRemedy::operator==(const WorkedRemedy& other) const {
  return same_cure(*this, other) && host == other.host && at == other.at;
}

Result<std::vector<WorkedRemedy>> RemedyMemory::read() const {
  std::error_code failure;
  if (!std::filesystem::exists(path_, failure)) return std::vector<WorkedRemedy>{};
  const auto text = read_file(path_, kLongest);
  if (!text) return fail(text.error());
  const Value document = Value::parse(*text, nullptr, false);
  if (document.is_discarded()) return damaged(path_, "it is no JSON");
  if (!document.is_object() || document.value("schema", Value()) != Value(kSchema) || !document.contains("worked") ||
      !document.at("worked").is_array())
    return damaged(path_, fmt::format("it is no list of schema {}", kSchema));
  std::vector<WorkedRemedy> rows;
  for (const Value& row : document.at("worked")) {
    try {
      if (!row.is_object()) throw std::invalid_argument("class");
      rows.push_back(row_of(row));
    } catch (const std::invalid_argument& missing) {
      return damaged(path_, fmt::format("row {} has no usable '{}'", rows.size() + 1, missing.what()));
    }
  }
  return rows;
}

Result<void> RemedyMemory::write(const std::vector<WorkedRemedy>& rows) const {
  Value document = {{"schema", kSchema}, {"worked", Value::array()}};
  for (const WorkedRemedy& row : rows) document["worked"].push_back(value_of(row));
  const std::string text = document.dump(1, ' ', false, Value::error_handler_t::replace) + "\n";
  const std::string fresh = path_ + ".new";
  unlink(fresh.c_str());
  const int file = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return system_failure("making", fresh);
  const bool whole = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(file) == 0;
  close(file);
  if (!whole) return system_failure("writing", fresh);
  if (std::rename(fresh.c_str(), path_.c_str()) != 0) return system_failure("replacing", path_);
  return {};
}

Result<std::vector<WorkedRemedy>> RemedyMemory::worked(const std::string& symptom_class,
                                                       const std::string& engine) const {
  const Lock guard(mutex_);
  auto rows = read();
  if (!rows) return rows;
  rows->erase(std::remove_if(
                  rows->begin(), rows->end(),
                  [&](const WorkedRemedy& row) { return row.symptom_class != symptom_class || row.engine != engine; }),
              rows->end());
  return rows;
}

Result<void> RemedyMemory::remember(const std::vector<WorkedRemedy>& cured) {
  if (cured.empty()) return {};
  const Lock guard(mutex_);
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  if (auto made = make_private_directory(folder); !made) return made;
  const FileLock lock(path_ + ".lock");
  if (!lock.held()) return system_failure("locking", path_ + ".lock");
  auto rows = read();
  if (!rows && rows.error().kind != ErrorKind::invalid) return fail(rows.error());
  if (!rows) {
    if (std::rename(path_.c_str(), (path_ + ".damaged").c_str()) != 0) return system_failure("moving aside", path_);
    rows = std::vector<WorkedRemedy>{};
  }
  for (const WorkedRemedy& row : cured) {
    rows->erase(
        std::remove_if(rows->begin(), rows->end(), [&](const WorkedRemedy& old) { return same_cure(old, row); }),
        rows->end());
    rows->push_back(row);
  }
  if (rows->size() > kMost) rows->erase(rows->begin(), rows->end() - static_cast<std::ptrdiff_t>(kMost));
  return write(*rows);
}

}  // namespace millwright

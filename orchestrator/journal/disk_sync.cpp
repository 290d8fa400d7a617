#include "orchestrator/journal/disk_sync.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace millwright {

DiskSync::~DiskSync() {
  if (file_ >= 0) close(file_);
}

Result<void> DiskSync::sync_now() {
  if (file_ < 0) file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0 || fdatasync(file_) != 0) {
    return fail(ErrorKind::io, "waiting for the disk to keep " + path_ + ": " + std::strerror(errno));
  }
  return {};
}

Result<void> DiskSync::reach(std::uint64_t ticket) {
  std::uint64_t covers = 0;
  {
    const Lock guard(mutex_);
    wanted_ = std::max(wanted_, ticket);
    while (running_ && reached_ < ticket) ended_.wait(mutex_);
    if (reached_ >= ticket) return {};
    running_ = true;
    covers = wanted_;
  }
  Result<void> done = sync_now();
  const Lock guard(mutex_);
  running_ = false;
  if (done) reached_ = std::max(reached_, covers);
  ended_.notify_all();
  return done;
}

}  // namespace millwright

// Files through a connection: to a temporary name beside the target, hash-checked on the node, synced, renamed.
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/transport/lane_connection.hpp"

namespace millwright {
namespace {

constexpr std::size_t kChunk = 256 * 1024;
constexpr std::uint64_t kMessageRoom = 4096;
constexpr std::uint64_t kHeldInMemory = 256u << 20;
constexpr int kIncomplete = 71, kWrongHash = 72, kNoFolder = 73, kIsFolder = 74;

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
  void add(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), digest.data(), &size);
    std::string text;
    for (unsigned i = 0; i < size; ++i) {
      text += "0123456789abcdef"[digest[i] >> 4];
      text += "0123456789abcdef"[digest[i] & 15];
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

// Names, and what to do on every way out. A folder as target would swallow the file under its temporary name.
std::string opening_lines(const Upload& upload, const std::string& temporary) {
  const std::size_t slash = upload.path.rfind('/');
  const std::string folder = slash == 0 ? "/" : upload.path.substr(0, slash);
  return "umask 077\nto=" + shell_quote(upload.path) + " t=" + shell_quote(temporary) + " d=" + shell_quote(folder) +
         " w=\n" + "[ -d \"$d\" ] || { echo \"no folder $d\" >&2; exit " + std::to_string(kNoFolder) + "; }\n" +
         "[ ! -d \"$to\" ] || { echo \"$to is a folder\" >&2; exit " + std::to_string(kIsFolder) + "; }\n" +
         "trap 'rm -f -- \"$t\"; [ -z \"$w\" ] || rm -rf -- \"$w\"' EXIT\n"
         "trap 'exit 129' HUP INT TERM PIPE\n";
}

// Mode and owner before the rename: under its real name the file never has others.
std::string closing_lines(const Upload& upload) {
  std::string text;
  if (!upload.owner.empty() || !upload.group.empty()) {
    text += "chown -- " + shell_quote(upload.owner + (upload.group.empty() ? "" : ":" + upload.group)) +
            " \"$t\" || exit 1\n";
  }
  text += "chmod -- " + shell_quote(upload.mode) + " \"$t\" || exit 1\n";
  text += "sync -- \"$t\" 2>/dev/null || sync\nmv -f -- \"$t\" \"$to\" || exit 1\n";
  return text;
}

std::string temporary_name(const Upload& upload) {
  const std::size_t slash = upload.path.rfind('/');
  return upload.path.substr(0, slash + 1) + ".millwright-" + make_nonce().substr(0, 12);
}

std::string small_script(const Upload& upload, std::string_view content) {
  return opening_lines(upload, temporary_name(upload)) + "cat >\"$t\" || exit 1\n" +
         "got=$(sha256sum <\"$t\") || exit 1\n[ \"${got%% *}\" = " + sha256_hex(content) + " ] || exit " +
         std::to_string(kWrongHash) + "\n" + closing_lines(upload);
}

// The stream is the content and then its hash as 64 hex digits. Of a large file the node computes the hash from a fifo
// while the bytes arrive, where one can be made. Of what its memory still holds it is cheaper to read the file once
// more than to pass every byte through two more pipes.
std::string stream_script(const Upload& upload, std::uint64_t size) {
  const std::string n = std::to_string(size);
  const bool as_it_arrives = size > kHeldInMemory;
  return opening_lines(upload, temporary_name(upload)) +
         // openssl, where a node has it, is about three times as fast as coreutils.
         "hash() { if command -v openssl >/dev/null 2>&1; then openssl dgst -sha256 -r; else sha256sum; fi; }\n" +
         (as_it_arrives ? "w=$(mktemp -d 2>/dev/null) && mkfifo \"$w/f\" 2>/dev/null || "
                          "{ [ -z \"$w\" ] || rm -rf -- \"$w\"; w=; }\n"
                        : "") +
         "if [ -n \"$w\" ]; then\n"
         "  { head -c " +
         n +
         " | hash >\"$w/s\"; cat >/dev/null; } <\"$w/f\" &\n"
         "  tee \"$w/f\" >\"$t\" || exit 1\n"
         "  wait\n"
         "  got=$(cat \"$w/s\")\n"
         "else\n"
         "  cat >\"$t\" || exit 1\n"
         "fi\n"
         "have=$(wc -c <\"$t\")\n"
         "[ \"$have\" -eq " +
         std::to_string(size + 64) + " ] || exit " + std::to_string(kIncomplete) + "\n" +
         "want=$(tail -c 64 \"$t\")\n"
         "dd if=/dev/null of=\"$t\" bs=1 seek=" +
         n + " 2>/dev/null || exit 1\n" + "[ -n \"$w\" ] || got=$(hash <\"$t\")\n" +
         "[ \"${got%% *}\" = \"$want\" ] || exit " + std::to_string(kWrongHash) + "\n" + closing_lines(upload) +
         "echo stored\n";
}

// What a stream of bytes to a program is made of: a file or memory, then the hash of it.
class Source {
 public:
  static Result<Source> open(const Upload& upload) {
    Source source;
    source.memory_ = upload.content;
    source.total_ = upload.content.size();
    if (upload.local_path.empty()) return source;
    source.file_ = Descriptor(::open(upload.local_path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!source.file_.valid() || fstat(source.file_.get(), &status) != 0) {
      return fail(ErrorKind::io, "cannot read " + upload.local_path + ": " + std::strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) return fail(ErrorKind::io, upload.local_path + " is not a regular file");
    source.total_ = static_cast<std::uint64_t>(status.st_size);
    return source;
  }
  std::uint64_t total() const { return total_; }

  // The next piece; empty at the end of content and hash.
  Result<std::string_view> next() {
    if (taken_ == total_) return end_piece();
    const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(kChunk, total_ - taken_));
    std::string_view piece;
    if (!file_.valid()) {
      piece = memory_.substr(static_cast<std::size_t>(taken_), size);
    } else {
      buffer_.resize(size);
      const ssize_t got = read(file_.get(), buffer_.data(), size);
      if (got <= 0) return fail(ErrorKind::io, got == 0 ? "the file shrank while it was read" : std::strerror(errno));
      piece = std::string_view(buffer_).substr(0, static_cast<std::size_t>(got));
    }
    taken_ += piece.size();
    hash_.add(piece);
    return piece;
  }

 private:
  std::string_view end_piece() {
    if (hashed_) return {};
    hashed_ = true;
    trailer_ = hash_.hex();
    return trailer_;
  }

  std::string_view memory_;
  Descriptor file_;
  std::uint64_t total_ = 0, taken_ = 0;
  bool hashed_ = false;
  std::string buffer_, trailer_;
  Sha256 hash_;
};

struct StreamEnd {
  std::string out, err;
  std::uint64_t sent = 0, received = 0;
  std::optional<Error> error;
};

// Sends everything and reads what the program says, until it ends.
class Sender {
 public:
  Sender(Program& program, Source& source, const Upload& upload, const Wakeup& wake)
      : program_(program), source_(source), upload_(upload), wake_(wake) {}

  StreamEnd run(SteadyPoint deadline) {
    bool out_open = true, err_open = true;
    while (out_open || err_open) {
      std::vector<pollfd> set{{out_open ? program_.output() : -1, POLLIN, 0},
                              {err_open ? program_.errors() : -1, POLLIN, 0},
                              {wake_.fd(), POLLIN, 0},
                              {sending_ ? program_.input() : -1, POLLOUT, 0}};
      if (poll_until(set, deadline) == 0) return give_up(ErrorKind::timeout, "did not arrive in time");
      if (set[2].revents != 0) return give_up(ErrorKind::interrupted, "was interrupted");
      if (set[3].revents != 0 && !send()) return std::move(end_);
      if (set[0].revents != 0) out_open = receive(program_.output(), end_.out);
      if (set[1].revents != 0) err_open = receive(program_.errors(), end_.err);
      // A full disk is known here, not after the last byte; other words (sudo's) do not matter.
      if (sending_ && complains(end_.err)) stop_sending();
    }
    return std::move(end_);
  }

 private:
  StreamEnd give_up(ErrorKind kind, const std::string& why) {
    end_.error = make_error(kind, upload_.path + " " + why);
    return std::move(end_);
  }

  static bool complains(const std::string& said) {
    return said.find("tee: ") != std::string::npos || said.find("cat: ") != std::string::npos;
  }

  void stop_sending() {
    program_.close_input();
    sending_ = false;
  }

  bool send() {
    if (piece_.empty()) {
      auto next = source_.next();
      if (!next) {
        end_.error = next.error();
        return false;
      }
      piece_ = *next;
      if (piece_.empty()) {
        stop_sending();
        return true;
      }
    }
    const ssize_t sent = write(program_.input(), piece_.data(), piece_.size());
    if (sent < 0 && errno != EAGAIN && errno != EINTR) stop_sending();
    if (sent <= 0) return true;
    end_.sent += static_cast<std::uint64_t>(sent);
    piece_.remove_prefix(static_cast<std::size_t>(sent));
    tell_progress();
    return true;
  }

  // Not after each piece: who listens may write it down.
  void tell_progress() {
    constexpr auto pause = std::chrono::milliseconds(200);
    const auto now = std::chrono::steady_clock::now();
    const std::uint64_t done = std::min(end_.sent, source_.total());
    if (!upload_.progress || (now < told_ + pause && done < source_.total())) return;
    told_ = now;
    upload_.progress(done, source_.total());
  }

  bool receive(int fd, std::string& into) {
    std::array<char, 4096> buffer{};
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got > 0) into.append(buffer.data(), static_cast<std::size_t>(got));
    if (got > 0) end_.received += static_cast<std::uint64_t>(got);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }

  Program& program_;
  Source& source_;
  const Upload& upload_;
  const Wakeup& wake_;
  bool sending_ = true;
  std::string_view piece_;
  SteadyPoint told_{};
  StreamEnd end_;
};

}  // namespace

Result<void> LaneConnection::check_upload(const Upload& upload, int exit_code, const std::string& said) const {
  if (exit_code == 0) return {};
  const std::string what = upload.path + " on " + name();
  const auto says = [&](std::string_view part) { return said.find(part) != std::string::npos; };
  const std::string folder = upload.path.substr(0, std::max<std::size_t>(1, upload.path.rfind('/')));
  Error error = make_error(ErrorKind::transfer, "cannot write " + what + ": " + std::string(trim(said)));
  if (exit_code == kWrongHash) {
    error = make_error(ErrorKind::transfer, what + " did not arrive whole: its sha256 differs").with_hint("try again");
  } else if (exit_code == kIncomplete) {
    error = make_error(ErrorKind::transfer, what + " did not arrive whole: bytes are missing").with_hint("try again");
  } else if (exit_code == kNoFolder) {
    error = make_error(ErrorKind::transfer, "cannot write " + what + ": the folder " + folder + " is not there")
                .with_hint("make it first (a file step with state: directory)");
  } else if (exit_code == kIsFolder) {
    error = make_error(ErrorKind::transfer, "cannot write " + what + ": it is a folder");
  } else if (says("No space left") || says("Disk quota exceeded")) {
    error = make_error(ErrorKind::transfer, "the disk is full: cannot write " + what)
                .with_hint("make room there: df -h " + shell_quote(folder));
  } else if (says("Read-only file system")) {
    error = make_error(ErrorKind::transfer, "the file system is read-only: cannot write " + what);
  } else if (says("Permission denied") || says("Operation not permitted")) {
    error.with_hint("become root for this step (become: true)");
  }
  error.detail = said;
  return fail(error);
}

Result<void> LaneConnection::upload(const Upload& upload) {
  if (!starts_with(upload.path, "/") || ends_with(upload.path, "/")) {
    return fail(ErrorKind::usage, "'" + upload.path + "' is not the absolute path of a file");
  }
  auto source = Source::open(upload);
  if (!source) return Failure(source.error());
  if (source->total() > settings_.small_upload) return upload_stream(upload);
  std::string content;
  while (content.size() < source->total()) {
    auto piece = source->next();
    if (!piece) return Failure(wrap(piece.error(), "reading " + upload.local_path));
    content += *piece;
  }
  return upload_small(upload, content);
}

Result<void> LaneConnection::upload_small(const Upload& upload, std::string_view content) {
  Command command;
  command.script = small_script(upload, content);
  command.input = content;
  command.become = upload.become;
  command.deadline = upload.deadline;
  auto result = run(command);
  if (!result) return Failure(wrap(result.error(), "writing " + upload.path));
  if (upload.progress && result->exit_code == 0) upload.progress(content.size(), content.size());
  return check_upload(upload, result->exit_code, result->err);
}

Result<void> LaneConnection::upload_stream(const Upload& upload) {
  const Call call(*this);
  const SteadyPoint deadline = std::chrono::steady_clock::now() + upload.deadline;
  auto source = Source::open(upload);
  if (!source) return Failure(source.error());
  // The status travels as text: not every way to a program hands its exit status back.
  const std::string script = "(\n" + stream_script(upload, source->total()) + ")\necho \"status $?\"\n";
  auto program = launch_program(*source_, settings_.launch, upload.become, script, name(), deadline, call.wake());
  if (!program) return Failure(wrap(program.error(), "writing " + upload.path));
  StreamEnd end = Sender(**program, *source, upload, call.wake()).run(deadline);
  {
    const Lock lock(mutex_);
    stats_.round_trips += 2;
    ++stats_.commands;
    stats_.bytes_sent += end.sent;
    stats_.bytes_received += end.received;
  }
  if (end.error) return fail(wrap(*end.error, "sending to " + name()));
  const std::size_t status = end.out.rfind("status ");
  if (status == std::string::npos) {
    if (source_->alive() && (*program)->lost().empty()) {
      return fail(explain_failed_launch(settings_.launch, upload.become, name(), end.err));
    }
    return fail(make_error(ErrorKind::connect, "the connection to " + name() + " was lost while writing " +
                                                   upload.path + ": " + (*program)->lost()));
  }
  return check_upload(upload, std::atoi(end.out.c_str() + status + 7), end.err);
}

Result<std::string> LaneConnection::download(const std::string& path, std::uint64_t max_bytes, Become become) {
  Command command;
  const std::string quoted = shell_quote(path);
  command.script = "[ -e " + quoted + " ] || { echo 'no such file' >&2; exit 1; }\n[ ! -d " + quoted +
                   " ] || { echo 'is a folder' >&2; exit 1; }\nhead -c " + std::to_string(max_bytes + 1) + " -- " +
                   quoted + "\n";
  command.become = become;
  command.max_output = std::max<std::uint64_t>(max_bytes + 1, kMessageRoom);
  command.deadline = std::chrono::minutes(30);
  auto result = run(command);
  if (!result) return Failure(wrap(result.error(), "reading " + path));
  if (result->exit_code != 0) {
    return fail(make_error(ErrorKind::transfer,
                           "cannot read " + path + " on " + name() + ": " + std::string(trim(result->err))));
  }
  if (result->out.size() > max_bytes) {
    return fail(make_error(ErrorKind::transfer, path + " on " + name() + " is larger than " + format_size(max_bytes)));
  }
  return std::move(result->out);
}

}  // namespace millwright

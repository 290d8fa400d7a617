#include "orchestrator/transport/lane.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace millwright {
namespace {

constexpr std::size_t kChunk = 64 * 1024;
constexpr std::size_t kSaidLimit = 8192;
// The first answer also waits for the shell (and sudo, and the container) to start.
constexpr Milliseconds kStartAllowance = std::chrono::seconds(30);

enum class ReadState { data, later, end };

ReadState read_some(int fd, std::string& buffer) {
  buffer.resize(kChunk);
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  buffer.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (got > 0) return ReadState::data;
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return ReadState::later;
  return ReadState::end;
}

}  // namespace

// One batch on its way: what is still to be sent, and per stream how far the frames have been read.
class Lane::Exchange {
 public:
  Exchange(const std::vector<const Command*>& commands, std::string text, std::vector<std::string> nonces)
      : commands_(commands),
        text_(std::move(text)),
        out_(nonces),
        err_(nonces),
        greeting_(nonces.size() - commands.size()) {
    outcome_.results.resize(commands.size());
  }

  LaneOutcome drive(Program& program, const Wakeup& wake, std::string& lane_process) {
    begin_ = std::chrono::steady_clock::now();
    while (!complete()) {
      std::vector<pollfd> set{{program.output(), POLLIN, 0}, {program.errors(), POLLIN, 0}, {wake.fd(), POLLIN, 0}};
      if (outcome_.sent < text_.size()) set.push_back({program.input(), POLLOUT, 0});
      if (poll_until(set, deadline()) == 0) return finish(LaneEnd::timed_out, lane_process);
      if (set[2].revents != 0) return finish(LaneEnd::interrupted, lane_process);
      if (set.size() > 3 && set[3].revents != 0) send(program.input());
      const bool out_open = set[0].revents == 0 || receive(program.output(), OutputStream::out);
      const bool err_open = set[1].revents == 0 || receive(program.errors(), OutputStream::err);
      if (!complete() && (!out_open || !err_open)) {
        drain(program);
        if (complete()) break;
        outcome_.lost_reason = program.lost();
        return finish(LaneEnd::lost, lane_process);
      }
    }
    return finish(LaneEnd::done, lane_process);
  }

 private:
  struct Reading {
    explicit Reading(const std::vector<std::string>& nonces) {
      for (const std::string& nonce : nonces) frames.emplace_back(nonce);
    }
    bool complete() const { return at == frames.size(); }
    std::vector<FrameReader> frames;
    std::size_t at = 0;
  };

  bool complete() const { return out_.complete() && err_.complete(); }
  std::size_t current() const { return std::min(out_.at, err_.at); }

  SteadyPoint deadline() const {
    if (current() < greeting_) return begin_ + kStartAllowance + commands_[0]->deadline;
    return begin_ + commands_[current() - greeting_]->deadline;
  }

  void send(int fd) {
    const std::size_t size = std::min(kChunk, text_.size() - outcome_.sent);
    const ssize_t sent = write(fd, text_.data() + outcome_.sent, size);
    if (sent > 0) outcome_.sent += static_cast<std::size_t>(sent);
    // The far end is gone: what it said before is still to be read, and ends the exchange.
    if (sent < 0 && errno != EAGAIN && errno != EINTR) text_.resize(outcome_.sent);
  }

  bool receive(int fd, OutputStream stream) {
    const ReadState state = read_some(fd, buffer_);
    outcome_.received += buffer_.size();
    if (state == ReadState::data) consume(stream);
    return state != ReadState::end;
  }

  // After one stream has ended the other may still hold the end of the story.
  void drain(Program& program) {
    const auto grace = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    for (const auto& [fd, stream] :
         {std::pair(program.output(), OutputStream::out), std::pair(program.errors(), OutputStream::err)}) {
      std::vector<pollfd> set{{fd, POLLIN, 0}};
      while (poll_until(set, grace) > 0 && receive(fd, stream)) {
      }
    }
  }

  void consume(OutputStream stream) {
    Reading& reading = stream == OutputStream::out ? out_ : err_;
    std::string_view bytes = buffer_;
    while (!bytes.empty() && !reading.complete()) {
      FrameReader& frame = reading.frames[reading.at];
      if (stream == OutputStream::err && !frame.begun() && reading.at < greeting_ &&
          outcome_.said.size() < kSaidLimit) {
        outcome_.said.append(bytes.substr(0, kSaidLimit));
      }
      std::string payload;
      bytes = frame.feed(bytes, payload);
      if (!payload.empty() && reading.at >= greeting_) deliver(stream, reading.at - greeting_, payload);
      if (frame.done()) step_over(reading, stream);
    }
  }

  void step_over(Reading& reading, OutputStream stream) {
    const std::size_t before = current();
    if (reading.at >= greeting_ && stream == OutputStream::out) {
      outcome_.results[reading.at - greeting_].exit_code = reading.frames[reading.at].exit_code();
    }
    ++reading.at;
    if (current() == before) return;
    const auto now = std::chrono::steady_clock::now();
    if (before >= greeting_) {
      CommandResult& result = outcome_.results[before - greeting_];
      result.elapsed = std::chrono::duration_cast<Milliseconds>(now - begin_);
      if (commands_[before - greeting_]->done) commands_[before - greeting_]->done(result);
    }
    begin_ = now;
  }

  void deliver(OutputStream stream, std::size_t index, std::string_view payload) {
    CommandResult& result = outcome_.results[index];
    std::string& kept = stream == OutputStream::out ? result.out : result.err;
    const std::uint64_t room =
        commands_[index]->max_output - std::min<std::uint64_t>(commands_[index]->max_output, kept.size());
    if (payload.size() > room) result.truncated = true;
    kept.append(payload.substr(0, room));
    if (commands_[index]->live) commands_[index]->live(stream, payload);
  }

  LaneOutcome finish(LaneEnd end, std::string& lane_process) {
    if (greeting_ == 1 && out_.frames[0].begun()) {
      const std::string& line = out_.frames[0].opening();
      lane_process = line.substr(0, line.find(' '));
    }
    outcome_.end = end;
    const std::size_t index = std::max(current(), greeting_) - greeting_;
    outcome_.finished = index;
    outcome_.anything_begun =
        out_.at > greeting_ || err_.at > greeting_ || out_.frames[greeting_].begun() || err_.frames[greeting_].begun();
    if (end != LaneEnd::done && current() >= greeting_) {
      const std::string& opening = out_.frames[current()].opening();
      const std::size_t slash = opening.rfind('/');
      if (slash != std::string::npos && opening.back() != '*') outcome_.script_process = opening.substr(slash + 1);
    }
    return std::move(outcome_);
  }

  const std::vector<const Command*>& commands_;
  std::string text_;
  Reading out_, err_;
  std::size_t greeting_;  // 1 when the first frame is the lane's greeting
  SteadyPoint begin_;
  std::string buffer_;
  LaneOutcome outcome_;
};

Lane::Lane(std::unique_ptr<Program> program, Become become) : program_(std::move(program)), become_(become) {}

Result<LaneOutcome> Lane::run(const std::vector<const Command*>& commands, const Wakeup& wake) {
  std::string text;
  std::vector<std::string> nonces;
  if (!greeted_) {
    nonces.push_back(make_nonce());
    text = lane_greeting(nonces.back());
  }
  for (const Command* command : commands) {
    nonces.push_back(make_nonce());
    auto frame = frame_command(*command, nonces.back());
    if (!frame) return Failure(frame.error());
    text += *frame;
  }
  for (const Command* command : commands) {
    if (!command->keep_as.empty()) text += "unset " + command->keep_as + "\n";
  }
  greeted_ = true;
  return Exchange(commands, std::move(text), std::move(nonces)).drive(*program_, wake, process_);
}

Command kill_command(const std::string& lane_process, const std::string& script_process) {
  // Field 2 after the command's name is the parent, 4 the session, 20 the start time. Members of the lane's session
  // that are younger than the script were started by it, also when their parent is gone.
  Command command;
  command.script = "lane=" + lane_process + " first=" + script_process + R"(
look() {
  { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
  line=${line##*) }
  set -- $line
  parent=$2 session=$4 start=${20}
}
look "$lane" || exit 0
of_lane=$session
look "$first" || exit 0
[ "$parent" = "$lane" ] || exit 0
since=$start
all=" $first "
gather() {
  found=1
  while [ "$found" = 1 ]; do
    found=0
    for entry in /proc/[0-9]*; do
      id=${entry#/proc/}
      case $all in *" $id "*) continue ;; esac
      [ "$id" != "$lane" ] && look "$id" || continue
      case $all in
        *" $parent "*) ;;
        *) [ "$of_lane" != 0 ] && [ "$session" = "$of_lane" ] && [ "$start" -ge "$since" ] || continue ;;
      esac
      all="$all$id "
      found=1
    done
  done
}
gather
kill -KILL "$lane"
for round in 1 2 3; do
  kill -KILL $all 2>/dev/null
  gather
done
kill -KILL $all 2>/dev/null
exit 0
)";
  command.deadline = std::chrono::seconds(5);
  return command;
}

Result<std::unique_ptr<Program>> launch_program(ProgramSource& source, const LaunchSettings& settings, Become become,
                                                const std::string& script, const std::string& where,
                                                SteadyPoint deadline, const Wakeup& wake) {
  auto launch = make_launch(settings, become, script);
  if (!launch) return Failure(launch.error());
  auto program = source.start(launch->command, deadline);
  if (!program || launch->password == PasswordPrompt::never) return program;
  std::string said, buffer;
  bool asked = false;
  while (true) {
    std::vector<pollfd> set{{(*program)->errors(), POLLIN, 0}, {wake.fd(), POLLIN, 0}};
    if (poll_until(set, deadline) == 0) {
      return fail(ErrorKind::timeout, "sudo on " + where + " did not answer in time");
    }
    if (set[1].revents != 0) return fail(ErrorKind::interrupted, "interrupted while starting sudo on " + where);
    const ReadState state = read_some((*program)->errors(), buffer);
    said += buffer;
    if (said.find(launch->ready + "\n") != std::string::npos) return program;
    const std::size_t prompt = said.find(launch->prompt);
    if (prompt != std::string::npos) {
      said.erase(0, prompt + launch->prompt.size());
      if (asked) return fail(explain_failed_launch(settings, become, where, "sudo: incorrect password"));
      asked = true;
      const std::string line = settings.become_password + "\n";
      if (write((*program)->input(), line.data(), line.size()) < 0)
        return fail(ErrorKind::connect, "sudo on " + where + " is gone");
    }
    if (state == ReadState::end) return fail(explain_failed_launch(settings, become, where, said));
  }
}

}  // namespace millwright

// The wire format of a lane: how one script travels to a long-lived /bin/sh and how its two outputs and its status are
// told from everything else that comes back. See docs/protocol.md.
//
// Values; no threads, no I/O.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "orchestrator/base/error.hpp"
#include "orchestrator/transport/connection.hpp"

namespace millwright {

// 128 random bits as hex: nobody on the node can know it before the script has begun.
std::string make_nonce();

// What every lane's shell is told first: where its own errors go, and its process id on standard output after `nonce`.
std::string lane_greeting(const std::string& nonce);

// The text for the lane's shell. Fails with `usage` when a name in `env` is no variable name.
Result<std::string> frame_command(const Command& command, const std::string& nonce);

// The sh word for printf's format that prints exactly these bytes, NUL included.
std::string printf_word(std::string_view bytes);

// Cuts one stream of a lane at a nonce. Feed it what comes; it calls back with the script's own bytes.
class FrameReader {
 public:
  explicit FrameReader(std::string nonce) : nonce_(std::move(nonce)) {}
  // Consumes bytes up to the end of the frame and returns what is left for the next one. The script's bytes are
  // appended to `payload`.
  std::string_view feed(std::string_view bytes, std::string& payload);
  bool begun() const { return state_ != State::before; }
  bool done() const { return state_ == State::done; }
  const std::string& opening() const { return opening_; }  // what the begin line says after the nonce: a process id
  int exit_code() const { return exit_code_; }             // on standard output only

 private:
  enum class State { before, opening, inside, closing, done };
  std::string_view until_nonce(std::string_view bytes, std::string* payload, State next);
  std::string_view until_newline(std::string_view bytes, State next);

  std::string nonce_;
  State state_ = State::before;
  std::size_t matched_ = 0;  // bytes of the nonce seen at the end of what came so far
  std::string line_;
  std::string opening_;
  int exit_code_ = -1;
};

}  // namespace millwright

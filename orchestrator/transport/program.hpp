// A program at the far end of a connection, as three byte streams on this side; and where such programs come from.
#pragma once

#include <memory>
#include <string>

#include "orchestrator/base/error.hpp"
#include "orchestrator/transport/descriptor.hpp"

namespace millwright {

// Used by one thread at a time. Destroying it closes the streams and lets go of the program without waiting for it.
class Program {
 public:
  virtual ~Program() = default;
  // Non-blocking descriptors; input is written, output and errors are read until end of file.
  virtual int input() const = 0;
  virtual int output() const = 0;
  virtual int errors() const = 0;
  virtual void close_input() = 0;
  // After end of file: why the way to the program was lost, or empty when the program ended by itself.
  virtual std::string lost() const = 0;
};

// A host that can start programs and open TCP streams. Safe for concurrent use.
class ProgramSource {
 public:
  virtual ~ProgramSource() = default;
  virtual std::string name() const = 0;  // "root@10.0.3.11:22"
  // `command` is one line for the login shell there. Fails with kind `busy` when the far end has no room for another
  // one (sshd's MaxSessions), `connect` or `timeout` otherwise.
  virtual Result<std::unique_ptr<Program>> start(const std::string& command, SteadyPoint deadline) = 0;
  // A TCP stream to host:port as seen from there; errors() is -1.
  virtual Result<std::unique_ptr<Program>> dial(const std::string& host, int port, SteadyPoint deadline) = 0;
  virtual Result<void> reconnect(SteadyPoint deadline) = 0;
  virtual bool alive() const = 0;
  virtual void interrupt() = 0;  // makes start, dial and reconnect in progress return `interrupted`
};

}  // namespace millwright

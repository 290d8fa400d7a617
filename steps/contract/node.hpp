// What an active step may do to the node it runs on. The engine implements this on top of a connection; tests
// implement it in memory. Steps never see a connection.
//
// All calls block the step's own thread, honour the run's cancellation, and fail with timeout when their deadline
// passes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/error.hpp"
#include "steps/contract/change.hpp"

namespace millwright {

enum class Stream { out, err };
using OutputSink = std::function<void(Stream, std::string_view)>;  // called on the step's thread, in pieces

struct NodeCommand {
  std::string script;  // POSIX sh, run as Action::script is
  std::string input;   // standard input; empty: /dev/null
  Milliseconds deadline = std::chrono::minutes(1);
  OutputSink live;  // pieces as they come; may be empty
};

// A TCP door to a port of the node's loopback (or another address as seen from it), open as long as the object lives.
class NodeTunnel {
 public:
  virtual ~NodeTunnel() = default;
  virtual std::string base_url() const = 0;  // "http://127.0.0.1:43121", on the controller
};

class StepNode {
 public:
  virtual ~StepNode() = default;
  virtual std::string name() const = 0;  // "gpu1", or "gpu1/llm" for a container
  // Only transport failures are errors; a non-zero exit status is in the Answer.
  virtual Result<Answer> run(const NodeCommand& command) = 0;
  // Several scripts in one round trip, in order, each as run does.
  virtual Result<std::vector<Answer>> run_all(const std::vector<NodeCommand>& commands) = 0;
  // Streams, checks the hash on the node, renames into place.
  virtual Result<void> place(const FilePlacement& file,
                             const std::function<void(std::uint64_t, std::uint64_t)>& progress = {}) = 0;
  virtual Result<std::string> read(const std::string& path, std::uint64_t max_bytes) = 0;
  virtual Result<std::unique_ptr<NodeTunnel>> tunnel(const std::string& host, int port) = 0;
  // Drops the connection and logs in again, trying until it works or `deadline` has passed (timeout). For steps after
  // which the node is known to go away: a reboot. In a container: the host's connection first, then the hop.
  virtual Result<void> reconnect(Milliseconds deadline) = 0;
};

}  // namespace millwright

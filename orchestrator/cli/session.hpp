// What every verb works with: where to write, what was wired, and the options that all verbs share.
//
// Lives in main's thread; verbs run in it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/cli/wiring.hpp"
#include "orchestrator/report/story.hpp"

namespace CLI {
class App;
}

namespace millwright {

class Inventory;

enum class Terminal { no, yes };

struct Console {
  std::function<void(std::string_view)> out;
  std::function<void(std::string_view)> err;
  std::function<std::string()> read_line;  // one line of standard input, without its newline
  Terminal out_is = Terminal::no;
  Terminal in_is = Terminal::no;
  std::size_t columns = 80;
  std::size_t rows = 24;
};

struct CommonOptions {
  bool json = false;
  bool no_color = false;
  int verbose = 0;
  std::string state;  // folder of the journal; empty: as state_directory finds it
};

// Exit codes of verbs that do not run anything on nodes; those of runs are the engine's ExitCode.
inline constexpr int kDone = 0;
inline constexpr int kUsage = 1;

struct Session {
  const Wiring& wiring;
  Console& console;
  CommonOptions common;
  std::function<int()> chosen;  // the verb that the command line names, ready to run

  Paint paint() const;
  // $XDG_STATE_HOME/millwright, else ~/.local/state/millwright; --state and $MILLWRIGHT_STATE come first.
  std::string state_directory() const;
  Result<std::unique_ptr<Journal>> open_journal() const;
  // For verbs that only read what earlier ones kept: where --state or $MILLWRIGHT_STATE names a folder without a
  // journal, that is an error (usage), and none is made there.
  Result<std::unique_ptr<Journal>> open_kept_journal() const;

  // All errors, then what they mean: "2 errors; nothing was contacted." Returns kUsage.
  int refuse(const std::vector<Error>& errors) const;
  int refuse(const Error& error) const { return refuse(std::vector<Error>{error}); }
  // An error after something was contacted, or where contacting is no question.
  int fail_with(const Error& error) const;
  // Asks on a terminal; elsewhere the answer is no, and says that -y is needed.
  bool confirm(const std::string& question) const;
};

}  // namespace millwright

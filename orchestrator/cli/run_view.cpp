#include "orchestrator/cli/run_view.hpp"

#include <cstdlib>

namespace millwright {

RunView::RunView(const Session& session, Diffs diffs) {
  ReportOptions options;
  options.columns = session.console.columns;
  options.paint = session.paint();
  options.diffs = diffs == Diffs::yes;
  options.verbose = session.common.verbose;
  const char* term = std::getenv("TERM");
  const bool can_move = session.console.out_is == Terminal::yes && term != nullptr && std::string_view(term) != "dumb";
  if (session.common.json) {
    sink_ = std::make_unique<NdjsonView>(session.console.out);
    return;
  }
  if (!can_move) {
    sink_ = std::make_unique<PlainView>(session.console.out, options);
    return;
  }
  // One row stays free, so that the cursor's own line never scrolls the region away.
  const std::size_t rows = session.console.rows > 4 ? session.console.rows - 2 : 2;
  auto view = std::make_unique<TerminalView>(session.console.out, options, rows, *session.wiring.clock);
  TerminalView* const live = view.get();
  Clock* const clock = session.wiring.clock;
  sink_ = std::move(view);
  ticker_ = std::thread([this, live, clock] {
    while (!done_) {
      clock->sleep(std::chrono::seconds(1), [this] { return done_.load(); });
      if (!done_) live->tick();
    }
  });
}

RunView::~RunView() {
  done_ = true;
  if (ticker_.joinable()) ticker_.join();
}

}  // namespace millwright

#include "orchestrator/journal/ledger.hpp"

namespace millwright {

namespace {

using std::chrono::steady_clock;

// How long a record may stay uncommitted, and with it another process be kept from writing.
constexpr auto kLongest = std::chrono::milliseconds(30);
// Between two transactions that ended by time: longer than others take to look whether it is their turn.
constexpr auto kGap = std::chrono::milliseconds(1);

}  // namespace

Ledger::Ledger(std::unique_ptr<Database> database, const std::string& path)
    : database_(std::move(database)), disk_(path + "-wal") {}

Ledger::~Ledger() {
  std::thread timer;
  {
    const Lock guard(mutex_);
    closing_ = true;
    static_cast<void>(commit());  // finish_run has said before whether all could be kept
    changed_.notify_all();
    timer.swap(timer_);
  }
  if (timer.joinable()) timer.join();
}

Result<void> Ledger::enter() {
  if (lost_) {
    const Error error = *std::exchange(lost_, std::nullopt);
    return fail(wrap(error, "keeping earlier records"));
  }
  if (open_) return {};
  if (const auto gap = since_ + kGap - steady_clock::now(); gap > gap.zero()) std::this_thread::sleep_for(gap);
  if (Result<void> begun = database_->run("BEGIN IMMEDIATE"); !begun) return begun;
  open_ = true;
  since_ = steady_clock::now();
  changed_.notify_all();
  if (!timer_.joinable()) timer_ = std::thread([this] { end_in_time(); });
  return {};
}

Result<void> Ledger::leave(Durability durability) {
  if (!database_->in_transaction()) {
    // A full disk takes the whole transaction back, not only the last statement.
    open_ = false;
    return fail(make_error(ErrorKind::io, "the journal could not keep its newest records")
                    .with_hint("is there space left where the state directory is?"));
  }
  if (durability == Durability::record) return {};
  Result<void> done = commit();
  since_ = {};
  return done;
}

Result<void> Ledger::commit() {
  if (!open_) return {};
  open_ = false;
  Result<void> done = database_->run("COMMIT");
  if (done) {
    ++commits_;
  } else {
    static_cast<void>(database_->run("ROLLBACK"));
  }
  return done;
}

void Ledger::end_in_time() {
  const Lock guard(mutex_);
  while (!closing_) {
    if (!open_) {
      changed_.wait(mutex_);
      continue;
    }
    const auto left = since_ + kLongest - steady_clock::now();
    if (left > left.zero()) {
      changed_.wait_for(mutex_, left);
      continue;
    }
    if (Result<void> done = commit(); !done) lost_ = done.error();
    since_ = steady_clock::now();
  }
}

}  // namespace millwright

// Actions of several steps of one node on their way together: sent in one go, each beginning on the node only when all
// before it have ended as they should (pipeline_script.hpp). The steps themselves run one after the other as ever, each
// taking what came of its own actions; one that does not end as planned drops the rest, which is planned anew then.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "orchestrator/engine/act.hpp"

namespace millwright {

// One step, or one item of its `foreach`, in a pipeline.
struct PipeUnit {
  Unit unit;
  std::vector<Question> questions;
  Answers answers;  // that it was planned on
  Change change;    // empty: it is only made sure that the answers are still those
  std::vector<Expectation> expected;
  SteadyPoint deadline;

  // Whether the node can tell by itself that it ended well, so that something may follow without being waited for.
  bool lets_follow() const {
    return change.empty() || change.verification == Verification::exit_status || !expected.empty();
  }
};

// Whether it may travel in a pipeline at all: it need not be alone, and brings no large files.
bool fits_pipeline(const Change& change, const StepDecl& decl);

// Safe for concurrent use. The first unit belongs to who sends it; the others are taken by their steps.
class Pipe {
 public:
  Pipe(RunContext& run, HostSession& host, NodeSession& node, Become become, std::vector<PipeUnit> units);
  ~Pipe();  // waits for its end
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  // Records all of it in the journal, then sends it. `others`: what is asked behind it. Errors: nothing was sent.
  Result<void> send(const std::vector<Wanted>& others);

  // The unit of that key, once; nothing when it is not here or was dropped.
  const PipeUnit* take(const std::string& key, SteadyPoint deadline);
  const PipeUnit& unit(const std::string& key) const { return units_[unit_of(key)]; }
  // How an action of a unit that was taken ended; waits for it. `begun` is called once, when it is known to run or when
  // it has not ended within `grace`; not at all when it ends sooner without having begun. Errors as Actor::act.
  Result<ActEnd> end_of(const std::string& key, std::size_t action, Milliseconds grace,
                        const std::function<void()>& begun);
  // Of a unit without actions: whether its answers are still the same. False: not known, ask again.
  bool same_answers(const std::string& key);

  // What has not begun on the node never will; blocks until what has begun has ended. Units that have begun stay here.
  void stop();
  // As stop, and what has begun all the same is left to rollback. Called when a step did not end as planned.
  void drop_rest();
  std::set<std::size_t> steps_left() const;  // steps with units that were not taken
  bool has_step(std::size_t step) const;
  bool idle() const;  // nothing is under way or left in it
  void wait();        // until nothing is under way

 private:
  struct Piece {  // one action; or the check of a unit without any
    std::size_t unit = 0;
    std::size_t index = 0;  // of the action
    ActRequest request;
    ActionScript script;
    std::uint64_t seq = 0;
  };
  struct Arrived {
    bool ended = false;
    CommandResult result;
    ActionMark mark;
    std::vector<std::pair<OutputStream, std::string>> heard;  // not passed on yet
    std::size_t held = 0;                                     // bytes of it
  };
  enum class State { waiting, taken, dropped };

  Result<void> make_pieces();
  Result<void> record();
  std::vector<const ActionScript*> scripts() const;
  void add_prepare(AskBatch& batch);
  void add_action(AskBatch& batch, std::size_t number);
  void add_check(AskBatch& batch, std::size_t number);
  void deliver();
  void note_end(std::size_t number, const std::function<void(Arrived&)>& fill, bool passed);
  std::size_t unit_of(const std::string& key) const;
  std::size_t first_piece(std::size_t unit) const;
  Result<ActionMark> mark_of(std::size_t number, ActEnd& end);
  Result<ActionMark> after_loss(std::size_t number, const Error& error);
  std::vector<ActionMark> claim(const std::vector<std::size_t>& units, bool& known);
  void forget(std::size_t unit, bool undone);
  void give_turn_back() MW_REQUIRES(mutex_);
  std::vector<std::size_t> waiting() const;

  RunContext& run_;
  HostSession& host_;
  NodeSession& node_;
  const Become become_;
  Actor actor_;
  // Constant once sent.
  std::vector<PipeUnit> units_;
  std::vector<Piece> pieces_;
  std::string gate_;
  std::uint64_t line_ = 0;
  std::optional<AskBatch> batch_;  // used by the thread that delivers it
  std::unique_ptr<Changing> changing_;

  mutable Mutex mutex_;
  Condition moved_;
  std::vector<Arrived> arrived_ MW_GUARDED_BY(mutex_);  // by piece
  std::vector<State> states_ MW_GUARDED_BY(mutex_);     // by unit
  std::vector<SteadyPoint> deadlines_ MW_GUARDED_BY(mutex_);
  std::vector<Answers> after_ MW_GUARDED_BY(mutex_);
  bool broken_ MW_GUARDED_BY(mutex_) = false;  // the node begins nothing more of it
  bool over_ MW_GUARDED_BY(mutex_) = false;
  bool turn_ MW_GUARDED_BY(mutex_) = false;  // it counts as a step at work
  std::optional<Error> error_ MW_GUARDED_BY(mutex_);
  std::optional<CommandResult> unprepared_ MW_GUARDED_BY(mutex_);  // why nothing of it could begin
  std::thread thread_;
};

// The pipelines of one host. Safe for concurrent use.
class Pipes {
 public:
  Pipes(RunContext& run, HostSession& host) : run_(run), host_(host) {}

  Result<std::shared_ptr<Pipe>> send(NodeSession& node, Become become, std::vector<PipeUnit> units,
                                     const std::vector<Wanted>& others);
  // The pipeline that has this unit, which is taken from it; nothing when none has.
  std::shared_ptr<Pipe> take(const std::string& key, SteadyPoint deadline);
  std::set<std::size_t> steps_left() const;
  void stop();                  // all of them; see Pipe::stop
  void drop(std::size_t step);  // what follows this step, which did not end as planned
  void wait();                  // until nothing is under way

 private:
  std::vector<std::shared_ptr<Pipe>> all() const;

  RunContext& run_;
  HostSession& host_;
  mutable Mutex mutex_;
  std::list<std::shared_ptr<Pipe>> pipes_ MW_GUARDED_BY(mutex_);
};

}  // namespace millwright

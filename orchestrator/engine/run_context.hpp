// What all workers of one run share. Built once by the engine; lives until the last worker has ended.
#pragma once

#include <map>
#include <set>
#include <string>

#include "orchestrator/engine/engine.hpp"
#include "orchestrator/engine/live_connections.hpp"
#include "orchestrator/engine/recorder.hpp"
#include "orchestrator/engine/schedule.hpp"
#include "orchestrator/engine/secrets.hpp"
#include "orchestrator/engine/semaphores.hpp"

namespace millwright {

struct RunContext {
  EngineServices services;
  const InterruptLevel& interrupt;
  const Playbook& playbook;
  StepOrder order;
  Value inputs;
  RunOptions options;
  Recorder recorder;
  Board board;
  LiveConnections live;
  Semaphores locks;
  RunSecrets secrets;
  std::string holder;  // of locks: "user@host pid 1234"
  // What earlier lives of this run (before it was killed) got to, by host and step id. Empty for a new run.
  std::map<std::string, std::map<std::string, StepRecord>> earlier;
  std::string ended_before;  // the sentence that this run ended with before it was taken back, if that was a failure
  std::string looked_at;     // the run whose outputs `earlier` holds, when it is another one
  std::set<std::size_t> left_out;  // steps that do not run: --tags, --skip-tags, --start-at

  RunContext(EngineServices given, const InterruptLevel& level, const Playbook& book, Value run_inputs,
             RunOptions run_options, const std::string& run)
      : services(given),
        interrupt(level),
        playbook(book),
        order(book),
        inputs(std::move(run_inputs)),
        options(std::move(run_options)),
        recorder(*given.journal, *given.sink, *given.clock, run),
        board(order, book.steps.size()) {}

  const std::string& run() const { return recorder.run(); }
  bool stop_starting() const { return interrupt.load() >= 1 || recorder.broken().has_value(); }
  bool changes_nothing() const { return options.mode == Mode::plan; }
  bool stop_now() const { return interrupt.load() >= 2; }
};

}  // namespace millwright

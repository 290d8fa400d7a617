// A run gathered from its events, for reports that show it as a whole. Events of any age or shape are survived.
//
// Plain values; used from one thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/base/event.hpp"
#include "orchestrator/base/redact.hpp"

namespace millwright {

struct StepFacts {
  std::string id, name, uses, in;
  std::vector<std::string> needs;
};

// One go of a step on a host, from its start to its end.
struct StepSpan {
  std::string host, step, state, summary;
  std::int64_t from_ms = 0, to_ms = 0;  // since the start of the run
  std::int64_t took_ms = 0;
};

struct CommandFacts {
  std::string host, step, title, undo_title, script, output;
  std::optional<std::int64_t> exit_code;  // nothing: it did not end
  std::int64_t took_ms = 0;
  bool started = false;
};

struct ExchangeFacts {
  std::string asked, expected, got, symptom_class, evidence;
  bool right = true;
};

struct ProbeFacts {
  std::string name, verdict, symptom_class, summary;
  std::int64_t took_ms = 0;
  std::vector<ExchangeFacts> exchanges;
  std::vector<std::string> notes;
};

// One test of a server, with what it said in the end.
struct TestFacts {
  std::string host, step, verdict, symptom_class, sentence, server;
  std::vector<ProbeFacts> probes;
};

struct StoryLine {
  std::int64_t at_ms = 0;
  std::string host, step, word, text, more;  // `more` is folded
  std::int64_t took_ms = 0;
};

struct UndoFacts {
  std::string host, step, title, state, error;
};

struct EvidenceFacts {
  std::string host, step, name, text;
};

// How a run had ended before it was gone on with or taken back.
struct EarlierEnd {
  std::string verb, sentence;
  int exit_code = 0;
};

struct RunFacts {
  std::string id, playbook, verb, started, sentence, cured_by, endpoint;
  std::vector<std::string> hosts;
  std::vector<StepFacts> steps;
  std::optional<int> exit_code;  // nothing: the run did not end
  std::vector<EarlierEnd> before;
  std::int64_t took_ms = 0;
  std::map<std::string, std::int64_t> counts;  // ok, changed, failed, skipped, unreachable
  std::vector<StepSpan> spans;
  std::vector<CommandFacts> commands;
  std::vector<TestFacts> tests;
  std::vector<StoryLine> story;
  std::vector<UndoFacts> undos;
  std::vector<std::string> remaining;
  std::vector<EvidenceFacts> evidence;
  std::vector<std::pair<std::string, std::string>> diffs;  // "host step" -> diff

  std::map<std::pair<std::string, std::string>, std::string> states;  // (host, step) -> the last one, containers' too

  // "Bind the GPUs", or empty.
  std::string name_of(const std::string& step) const;
  // The last state of a step on a host; empty when it never ran there.
  std::string state_of(const std::string& host, const std::string& step) const;
};

RunFacts gather_run(const std::vector<Event>& events, const Redactor& secrets);

// "Done", "Failed and rolled back": what an exit code means, and its tone as a state word.
std::pair<std::string, std::string> exit_words(const RunFacts& run);
std::pair<std::string, std::string> exit_words(int exit_code);

}  // namespace millwright

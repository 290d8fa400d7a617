// The smoke test of any OpenAI-compatible chat endpoint: one code path for the step kind and for `millwright smoke`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/value.hpp"
#include "steps/contract/http.hpp"
#include "steps/contract/step.hpp"
#include "steps/log/log_signs.hpp"
#include "steps/smoke/rules.hpp"

namespace millwright {

inline constexpr int kSmokeSchemaVersion = 1;

enum class ProbeVerdict { pass, degraded, fail, inconclusive, skipped };
std::string_view to_string(ProbeVerdict verdict);

// One question of a probe and what came.
struct Exchange {
  std::string asked;
  std::string expected;  // in words; empty: nothing in particular
  std::string got;       // the answer, or what came in its place
  std::string symptom_class;
  bool right = false;
  double seconds = 0;
  std::string evidence;  // name under which the raw bytes were kept; failed exchanges only
};

struct ProbeReport {
  std::string name;   // "known_answers"
  std::string title;  // "known answers"
  ProbeVerdict verdict = ProbeVerdict::skipped;
  std::string symptom_class;
  std::string summary;  // "5 of 5 right"
  double seconds = 0;
  std::optional<std::int64_t> tokens;
  std::optional<double> score;  // share of right answers, where the probe is about that
  std::vector<Exchange> exchanges;
  std::vector<std::string> notes;  // what surprised without being a fault
};

struct ServerFacts {
  std::string engine;   // "llama.cpp", "vllm", "sglang"; empty: unknown
  std::string version;  // empty: unknown
  std::string model;    // the id that is asked for
  std::optional<std::int64_t> max_length;
};

struct SmokeReport {
  VerdictKind verdict = VerdictKind::inconclusive;
  std::string symptom_class;
  std::string sentence;      // what a person understands
  std::string first_remedy;  // the shortest thing to try; empty on pass
  std::vector<ProbeReport> probes;
  ServerFacts server;
  double seconds = 0;
  std::optional<double> first_token_seconds;
  std::optional<double> tokens_per_second;
  std::optional<double> accuracy;  // share of word problems that came out right, 0 to 1
  bool cancelled = false;
};

// What the log of the server says, and its text.
struct LogLook {
  std::vector<LogFinding> findings;  // the gravest first
  std::string text;
};

struct SmokeOptions {
  std::string url;    // "http://host:port", with or without /v1
  std::string model;  // empty: the first that /v1/models lists
  std::string level = "quick";
  std::string api_key;                                           // empty: none
  Milliseconds first_token_timeout = std::chrono::seconds(900);  // kernels may be compiled at the first request
  Milliseconds ready_wait{0};                                    // how long a closed port or "loading" is waited for
  std::optional<std::int64_t> min_context;
  std::optional<SteadyPoint> deadline;  // of the whole test
  bool accuracy = false;                // the probe of that name, whatever the level
  std::vector<Milliseconds> recheck;    // after so long, the known answers are asked again; rising
  // The server's URL before each of these, for a way to it that may have been closed meanwhile. Empty: as before.
  std::function<Result<std::string>()> way_again;
  std::function<void(const std::string& text)> on_wait;
  std::vector<KnownQuestion> questions;  // in place of those of probes.yml, if any
  std::function<bool()> cancelled;
  // Called before and after each probe, on the caller's thread.
  std::function<void(const std::string& title)> on_start;
  std::function<void(const ProbeReport&)> on_probe;
  // Asked once, after the last probe and whatever came of it; nothing where the log cannot be read. Empty: no log.
  std::function<std::optional<LogLook>()> look_at_log;
  // Keeps the raw bytes of a failed exchange before anything else happens; returns the name to show.
  std::function<std::string(const std::string& name, std::string_view bytes)> keep;
};

// Blocks until every probe of the level has run or one failed (the rest is skipped then). Never throws for what a
// server does; an unknown level is a logic_error: callers check rules.levels first.
SmokeReport run_smoke(HttpClient& http, Clock& clock, const SmokeRules& rules, const SmokeOptions& options);

// schema_version, verdict, class, sentence, first_remedy, server{}, probes[]; for --json and the step's outputs.
Value to_json(const SmokeReport& report);

// "known answers  FAIL   5 of 5 empty: content null, ..."; without colour and newline.
std::string probe_line(const ProbeReport& probe);
// The last lines: verdict, usual cause, what to try. `rules` explains the class.
std::string closing_lines(const SmokeReport& report, const SmokeRules& rules);

}  // namespace millwright

#include "steps/smoke/later.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/units.hpp"
#include "steps/smoke/probe.hpp"

namespace millwright {
namespace {

// How often it is said how long it still takes.
constexpr Milliseconds kTellEvery = std::chrono::minutes(1);

// As people write it: "10m", "1h", "90s".
std::string short_time(Milliseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  if (seconds > 0 && seconds % 3600 == 0) return fmt::format("{}h", seconds / 3600);
  if (seconds > 0 && seconds % 60 == 0) return fmt::format("{}m", seconds / 60);
  return time.count() % 1000 == 0 ? fmt::format("{}s", seconds) : fmt::format("{}ms", time.count());
}

bool ended(const SmokeOptions& options) { return options.cancelled && options.cancelled(); }

bool past_deadline(Clock& clock, const SmokeOptions& options) {
  return options.deadline && clock.steady() >= *options.deadline;
}

// False when the test was ended meanwhile.
bool wait_until(Clock& clock, SteadyPoint due, const SmokeOptions& options) {
  while (!ended(options) && !past_deadline(clock, options)) {
    const auto left = std::chrono::duration_cast<Milliseconds>(due - clock.steady());
    if (left <= Milliseconds(0)) return true;
    if (options.on_wait) options.on_wait("known answers again in " + format_duration(left));
    clock.sleep(std::min(left, kTellEvery), [&] { return ended(options); });
  }
  return false;
}

// What a first test would call wrong_answers or a loop is a change here: the same questions were answered well.
void name_change(ProbeReport& probe, const SmokeRules& rules) {
  if (probe.verdict != ProbeVerdict::fail) return;
  const SymptomClass* known = rules.classes.find(probe.symptom_class);
  if (known == nullptr || known->stage != "answer" || probe.symptom_class == "hang") return;
  probe.summary = fmt::format("right before, now {}: {}", probe.symptom_class, probe.summary);
  probe.symptom_class = "poisoned_server";
}

// A session of its own, as the way to the server may be another one after so long.
ProbeReport ask_again(HttpClient& http, const SmokeSession& before, Clock& clock, const std::string& after) {
  SmokeOptions options = before.options();
  options.keep = [&before, &after](const std::string& name, std::string_view bytes) {
    return before.options().keep ? before.options().keep("after-" + after + "-" + name, bytes) : std::string();
  };
  ProbeReport report;
  if (options.way_again) {
    auto url = options.way_again();
    if (!url) {
      report.verdict = ProbeVerdict::inconclusive;
      report.summary = "the way to the server is lost: " + url.error().message;
      return report;
    }
    options.url = *url;
  }
  SmokeSession session(http, clock, before.rules(), options);
  session.server = before.server;
  session.answered = before.answered;
  session.reachable = before.reachable;
  session.thinking_off = before.thinking_off;
  session.thinks = before.thinks;
  session.plain_first = before.plain_first;
  report = find_probe("known_answers")->run(session);
  name_change(report, before.rules());
  return report;
}

}  // namespace

void ask_again_later(HttpClient& http, SmokeSession& before, SmokeReport& report) {
  const SmokeOptions& options = before.options();
  Clock& clock = before.clock();
  const SteadyPoint well = clock.steady();
  for (const Milliseconds after : options.recheck) {
    const std::string text = short_time(after);
    ProbeReport probe;
    if (wait_until(clock, well + after, options)) {
      if (options.on_start) options.on_start("known answers after " + text);
      const SteadyPoint start = clock.steady();
      probe = ask_again(http, before, clock, text);
      probe.seconds = std::chrono::duration<double>(clock.steady() - start).count();
    }
    if (ended(options) || past_deadline(clock, options)) {
      probe = ProbeReport{};
      probe.summary = ended(options) ? "interrupted" : "no time left";
      report.cancelled = true;
    }
    probe.name = "known_answers_after_" + text;
    probe.title = "after " + text;
    const bool well_still = probe.verdict == ProbeVerdict::pass || probe.verdict == ProbeVerdict::degraded;
    if (options.on_probe) options.on_probe(probe);
    report.probes.push_back(std::move(probe));
    if (!well_still) return;
  }
}

Result<std::vector<Milliseconds>> read_recheck_times(const std::vector<std::string>& texts) {
  std::vector<Milliseconds> times;
  for (const std::string& text : texts) {
    const auto time = parse_duration(text);
    if (!time) return fail(time.error());
    if (*time <= Milliseconds(0) || *time > std::chrono::hours(24)) {
      return fail(make_error(ErrorKind::invalid, fmt::format("'{}' is no time after which to ask again", text))
                      .with_hint("more than nothing and a day at most, such as 10m or 1h"));
    }
    times.push_back(*time);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

}  // namespace millwright

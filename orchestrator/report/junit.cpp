// JUnit XML, as CI systems read it: a suite a host, a case a step, and a case a probe.
#include <fmt/format.h>

#include <map>

#include "orchestrator/report/html.hpp"
#include "orchestrator/report/html_text.hpp"
#include "orchestrator/report/junit.hpp"
#include "orchestrator/report/run_facts.hpp"

namespace millwright {
namespace {

std::vector<JunitCase> cases_of(const RunFacts& run) {
  std::vector<JunitCase> cases;
  // The last go of a step is its result; what came before was repaired.
  std::map<std::pair<std::string, std::string>, std::size_t> last;
  for (const StepSpan& span : run.spans) {
    const std::string name = run.name_of(span.step);
    const JunitCase entry{span.host, name.empty() ? span.step : span.step + ": " + name, span.state, span.summary,
                          static_cast<double>(span.to_ms - span.from_ms) / 1000};
    const auto [found, added] = last.emplace(std::pair(span.host, span.step), cases.size());
    if (added) {
      cases.push_back(entry);
    } else {
      cases[found->second] = entry;
    }
  }
  std::map<std::pair<std::string, std::string>, const TestFacts*> tests;
  for (const TestFacts& test : run.tests) tests[{test.host, test.step}] = &test;
  for (const auto& [key, test] : tests) {
    for (const ProbeFacts& probe : test->probes) {
      cases.push_back({key.first, key.second + ": " + probe.name, probe.verdict,
                       probe.symptom_class.empty() ? probe.summary : probe.symptom_class + ": " + probe.summary,
                       static_cast<double>(probe.took_ms) / 1000});
    }
  }
  return cases;
}

std::string case_xml(const JunitCase& entry) {
  std::string out = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"", html(entry.suite),
                                html(entry.name), entry.seconds);
  const std::string_view shade = tone(entry.state);
  if (entry.state == "skipped" || entry.state == "cancelled" || entry.state == "ignored") {
    const char* const said = entry.state == "ignored" ? "failed, and that is ignored: " : "";
    out += fmt::format("><skipped message=\"{}{}\"/></testcase>\n", said, html(entry.message));
  } else if (entry.state == "unreachable" || entry.state == "inconclusive") {
    out += fmt::format("><error message=\"{}\" type=\"{}\"/></testcase>\n", html(entry.message), html(entry.state));
  } else if (shade == "bad" || entry.state == "refused") {
    out += fmt::format("><failure message=\"{}\" type=\"{}\"/></testcase>\n", html(entry.message), html(entry.state));
  } else {
    out += "/>\n";
  }
  return out;
}

}  // namespace

std::string junit_xml(const std::string& name, const std::vector<JunitCase>& cases, double seconds,
                      const std::string& started) {
  struct Suite {
    std::string cases;
    int tests = 0, failures = 0, errors = 0, skipped = 0;
  };
  std::map<std::string, Suite> suites;
  for (const JunitCase& entry : cases) {
    Suite& suite = suites[entry.suite];
    const std::string xml = case_xml(entry);
    suite.cases += xml;
    ++suite.tests;
    suite.failures += xml.find("<failure ") != std::string::npos ? 1 : 0;
    suite.errors += xml.find("<error ") != std::string::npos ? 1 : 0;
    suite.skipped += xml.find("<skipped ") != std::string::npos ? 1 : 0;
  }
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += fmt::format("<testsuites name=\"{}\" time=\"{:.3f}\">\n", html(name), seconds);
  for (const auto& [host, suite] : suites) {
    out += fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" timestamp=\"{}\">\n",
        html(host.empty() ? "run" : host), suite.tests, suite.failures, suite.errors, suite.skipped, html(started));
    out += suite.cases + "  </testsuite>\n";
  }
  return out + "</testsuites>\n";
}

std::string junit_report(const std::vector<Event>& events, const Redactor& secrets) {
  const RunFacts run = gather_run(events, secrets);
  return junit_xml(run.playbook.empty() ? run.id : run.playbook, cases_of(run), static_cast<double>(run.took_ms) / 1000,
                   run.started);
}

}  // namespace millwright

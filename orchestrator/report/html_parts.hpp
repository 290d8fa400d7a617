// The parts of the HTML report, each a pure function of the gathered run.
#pragma once

#include <string>
#include <string_view>

#include "orchestrator/report/run_facts.hpp"

namespace millwright {

std::string_view html_style();
std::string html_header(const RunFacts& run);
std::string html_story(const RunFacts& run);
std::string html_graph(const RunFacts& run);
std::string html_gantt(const RunFacts& run);
std::string html_probes(const RunFacts& run);
std::string html_commands(const RunFacts& run);
std::string html_undone(const RunFacts& run);
std::string html_evidence(const RunFacts& run);

}  // namespace millwright

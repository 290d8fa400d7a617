// A run as one HTML page that needs no network and runs no script, and as JUnit XML. Both are pure functions of the
// events; whatever a node or a model wrote is escaped, and secrets are taken out.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/base/event.hpp"
#include "orchestrator/base/redact.hpp"
#include "orchestrator/journal/journal.hpp"

namespace millwright {

// Verdict and one sentence first, then the story, the graph, the time line, probes, commands and what was undone.
// `evidence` names files of this machine; up to 256 KiB of each are put into the page, folded. A file that cannot be
// read is named as such.
std::string html_report(const std::vector<Event>& events, const std::vector<EvidenceRecord>& evidence,
                        const Redactor& secrets = redactor());

// The page of a run of the journal as <folder>/report.html, readable by its owner only; written beside and renamed, so
// that a reader never sees half of it. Makes the folder. Returns the path. Errors: io, and those of the journal.
Result<std::string> write_html_report(Journal& journal, const std::string& run, const std::string& folder,
                                      const Redactor& secrets = redactor());

// A test case for each (host, step) and for each probe; a suite a host.
std::string junit_report(const std::vector<Event>& events, const Redactor& secrets = redactor());

}  // namespace millwright

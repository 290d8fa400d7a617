// The log of the tested server: read on its node once the questions are asked, and what it changes in the verdict.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "steps/contract/node.hpp"
#include "steps/log/log_signs.hpp"
#include "steps/smoke/smoke.hpp"

namespace millwright {

// Shell that prints the release of the server that answers at this endpoint, whether the node has GPUs, and what the
// server has logged since it was started, its middle left out where it is long. Prints nothing where there is no such
// server. Needs to read the journal.
std::string server_log_script(const std::string& endpoint);

// What server_log_script printed, read by the signs of its engine. Nothing for an empty text.
std::optional<LogLook> read_server_log(const std::vector<LogSign>& signs, const std::string& printed);

// The log as one more probe: fails or degrades with its gravest finding, passes with notes.
ProbeReport log_probe(const LogLook& look, const std::string& evidence);

// A failure that the log explains gets the class of its cause; a finding that is more than a note is named.
void apply_log(SmokeReport& report, const LogLook& look, const SmokeRules& rules);

}  // namespace millwright

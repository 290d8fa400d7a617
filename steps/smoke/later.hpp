// The known answers asked again some time after a test that was well: a server may be poisoned after a while.
#pragma once

#include <string>
#include <vector>

#include "steps/smoke/session.hpp"

namespace millwright {

// Waits until each of options.recheck has passed since now and asks again, until one of them fails or the test is ended
// (report.cancelled). Adds a probe each; an answer that was right before and is not any more is poisoned_server.
void ask_again_later(HttpClient& http, SmokeSession& before, SmokeReport& report);

// "10m", "1h": positive, a day at most, sorted, each once. Invalid: what is wrong with which of them.
Result<std::vector<Milliseconds>> read_recheck_times(const std::vector<std::string>& texts);

}  // namespace millwright

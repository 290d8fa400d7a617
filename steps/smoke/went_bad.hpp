// After a probe that failed: whether the server has gone bad altogether since it answered well, whatever is asked.
#pragma once

#include "steps/smoke/session.hpp"

namespace millwright {

// Asks again what was answered right in this test, in words that no cache has seen. Garbage to all of it turns the
// class of `report` into poisoned_server; anything else leaves it as it is. Asks nothing where `report` names no fault
// of a text, or nothing was answered right before.
void check_whether_all_went_bad(SmokeSession& session, ProbeReport& report);

}  // namespace millwright

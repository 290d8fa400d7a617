// What the lines of --json hold, for programs that read them.
#pragma once

#include "orchestrator/base/value.hpp"

namespace millwright {

// JSON Schema (draft 2020-12) of one event as event_json writes it. Objects are open: later versions may add keys,
// never take one away or give it another meaning without another schema_version. docs/events.md says what each means.
Value event_schema();

}  // namespace millwright

// The seam to HTTP is in orchestrator/base, where transport implements it.
#pragma once

#include "orchestrator/base/http.hpp"  // IWYU pragma: export

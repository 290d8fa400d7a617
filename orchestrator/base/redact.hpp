// Redaction by value: secrets are registered once when they are resolved, and every sink (journal, events, log,
// report, terminal) passes its text through `redact`.
//
// Safe for concurrent use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

class Redactor {
 public:
  // Values shorter than 4 bytes are not registered: replacing them would garble everything. Also hides the value's
  // base64, percent-encoded and JSON-escaped forms, and each line of a multi-line value.
  void add(std::string_view secret);
  std::string redact(std::string_view text) const;  // each occurrence becomes "[secret]"
  Value redact_value(const Value& value) const;     // all strings in it, keys included

 private:
  mutable Mutex mutex_;
  std::vector<std::string> forms_ MW_GUARDED_BY(mutex_);  // longest first
};

// The process-wide one; main's sinks and the secret resolver share it.
Redactor& redactor();

}  // namespace millwright

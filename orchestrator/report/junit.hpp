// JUnit XML, as CI systems read it.
//
// Pure; safe from any thread.
#pragma once

#include <string>
#include <vector>

namespace millwright {

struct JunitCase {
  std::string suite, name;
  std::string state;  // "ok", "pass", "failed", "skipped", "unreachable"...: decides between failure, error and skipped
  std::string message;
  double seconds = 0;
};

// A document of all cases, a suite for each name of one. `started` is a time as in 2026-11-30T12:00:00Z.
std::string junit_xml(const std::string& name, const std::vector<JunitCase>& cases, double seconds,
                      const std::string& started);

}  // namespace millwright

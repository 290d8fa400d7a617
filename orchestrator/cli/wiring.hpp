// The real implementations behind the seams, as functions that make them. Filled by main.cpp, which alone knows their
// names; tests fill in their own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/error.hpp"

namespace millwright {

class Connector;
class HttpClient;
class Journal;
class Knowledge;
class RemedyAdvisor;
class StepRegistry;

struct Wiring {
  std::string version;
  Clock* clock = nullptr;
  std::function<Result<std::unique_ptr<Journal>>(const std::string& directory)> open_journal;
  std::function<std::unique_ptr<Connector>(Clock&)> make_connector;
  std::function<std::unique_ptr<HttpClient>()> make_http;
  // Errors are those of the knowledge: shipped data is checked by tests, but a user may override it.
  std::function<Result<void>(StepRegistry&, const Knowledge&)> register_steps;
  std::function<Result<std::unique_ptr<RemedyAdvisor>>(const Knowledge&)> make_remedies;
};

}  // namespace millwright

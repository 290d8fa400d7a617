// One engine as playbooks/knowledge/engines.yml describes it, ready to use.
//
// A plain value; regular expressions are compiled once per profile.
#pragma once

#include <map>
#include <regex>
#include <string>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/base/value.hpp"
#include "steps/log/log_signs.hpp"

namespace millwright {

struct LogStage {
  std::regex match;
  std::string title;    // {1}, {2} stand for groups
  double fraction = 0;  // of the whole start, 0 to 1
  double until = 0;     // where the next stage begins: with two groups (done, total) or one (percent) it moves between
};

struct LogFact {
  std::string name;
  std::regex match;  // the first group that matched is the value
};

struct LogFailure {
  std::string symptom_class;
  std::regex match;
  std::string sentence;  // {1}, {2} stand for groups; "{1}" of no match becomes empty
};

// How an engine takes the key that clients must send, without it being on a command line. One of them.
struct ApiKeyWay {
  std::string env;                       // a variable of its environment
  std::vector<std::string> file_flag;    // a flag that names a file with nothing but the key
  std::vector<std::string> config_flag;  // a flag that names a file with settings, whose text is
  std::string config_content;            // this, with the key as a JSON text (which YAML reads, too) for {value}

  bool known() const { return !env.empty() || !file_flag.empty() || !config_flag.empty(); }
};

struct EngineProfile {
  std::string id;     // "llama.cpp"
  std::string title;  // for people
  std::string executable;
  int default_port = 0;
  std::string health;                   // path that answers 200 without a key once the model is loaded
  std::vector<std::string> known_good;  // newest first
  Value methods;                        // method -> what every source of it has
  Value sources;                        // version -> how to install it
  std::map<std::string, std::vector<std::string>, std::less<>> flags;  // generic input -> its words here
  std::map<std::string, std::string> env;                              // of every server; the user's is stronger
  // By what it runs on, "cpu" or "cuda": further words and variables.
  std::map<std::string, std::vector<std::string>, std::less<>> device_flags;
  std::map<std::string, std::map<std::string, std::string>, std::less<>> device_env;
  bool finds_device_itself = false;  // `device: auto` adds nothing
  ApiKeyWay api_key;
  bool fits_memory_itself = false;  // its memory flags are its own affair
  bool model_is_file = false;       // never a folder
  std::vector<LogStage> stages;
  std::regex ready;
  std::vector<LogFact> facts;
  std::vector<LogFailure> failures;
  std::vector<LogSign> signs;  // log_signs.yml: what a start may say without failing
};

// An engine that the data does not know, or a regular expression that does not compile, is invalid.
Result<EngineProfile> engine_profile(const Knowledge& knowledge, const std::string& engine);

std::vector<std::string> known_engines(const Knowledge& knowledge);

}  // namespace millwright

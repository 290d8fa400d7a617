// A release: everything that makes one server what it is, as files of one folder, and the actions around it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "steps/contract/change.hpp"
#include "steps/server/server_spec.hpp"

namespace millwright {

struct Release {
  std::string run;             // the program that the unit starts
  std::string unit;            // text of the unit file
  std::string env;             // text of the environment file; secret
  std::string client_key;      // what clients must send; empty: nothing
  std::string api_key;         // text of the file with the key, where the engine reads one
  std::string api_key_config;  // text of the settings file with the key in it, likewise
  Value record;                // release.json: for people, `releases` and the next run
  std::string digest;          // names all of the above
  std::string health;          // URL that tells from the node whether it is up, without a key
};

Release make_release(const ServerSpec& spec, const EngineProfile& profile, const std::string& environment_identity,
                     const std::string& run);

// What is on the node now.
struct DeployedServer {
  std::optional<int> current;  // release number
  int highest = 0;             // highest number ever used there
  std::string digest;          // of the current release
  Value record = Value::object();
  std::map<int, Value> records;       // of all releases
  bool files_unchanged = false;       // the unit and the release's files are as they were put there
  std::vector<std::string> findings;  // what is not, in words
  std::vector<std::string> drop_ins;  // files of others that change the unit
  std::string environment_damage;     // "12 of its 400 files are gone"; empty: none
  bool enabled = true;                // it starts with the machine
  int restarts = 0;                   // by systemd, since it was started
  bool dies_again_and_again = false;  // it runs, but only since the last of several restarts
  std::string active;                 // of the unit
  bool model_there = false;
  bool model_is_folder = false;
  bool gpus_there = false;  // NVIDIA's
  std::string
      port_holder;  // who listens on our port and is not this server, "pid 77 (nginx, nginx.service)"; empty: none
};
std::vector<Question> deployed_questions(const ServerSpec& spec);
DeployedServer read_deployed(const Answers& answers);
// The release to go back to: one that served the same model and was not made by this run; the current one if it is so.
std::optional<int> release_before(const DeployedServer& deployed, const std::string& model_sha256,
                                  const std::string& run);
// The output `replaces`: what runs now and comes back when this run is taken back; null when nothing does, or when it
// is this run's own.
Value describe_replaced(const DeployedServer& deployed, const std::string& run);

Action prepare_action(const ServerSpec& spec, int number);
Action place_release_action(const ServerSpec& spec, const Release& release, int number);
// Symlink, unit file, restart. Returns at once: the start is watched by the step.
Action switch_action(const ServerSpec& spec, int number);
// For a release that is in place and does not run.
Action enable_action(const ServerSpec& spec);
Action start_again_action(const ServerSpec& spec);

}  // namespace millwright

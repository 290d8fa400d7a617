// The inputs of the server step as plain data, with the engine's profile applied.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/knowledge.hpp"
#include "steps/contract/inputs.hpp"
#include "steps/contract/signature.hpp"
#include "steps/server/engine_installer.hpp"
#include "steps/server/engine_profile.hpp"

namespace millwright {

// Files of a release that hold the key, for engines that read it from one.
inline constexpr const char* kApiKeyFile = "api_key";
inline constexpr const char* kApiKeyConfig = "config.yaml";  // SGLang reads only what is named so
inline constexpr const char* kClientKey = "client_key";      // the key, for root alone: what a test of it must send

struct ServerSpec {
  std::string name;
  std::string engine;
  std::string version;
  Value source;  // how that version is installed
  std::string model;
  std::string model_sha256;  // empty: not known
  std::string served_name;
  std::string host;
  int port = 0;
  std::optional<std::int64_t> context;
  std::optional<std::int64_t> max_requests;
  std::optional<std::int64_t> tensor_parallel;
  std::string kv_dtype;
  std::string reasoning_parser;
  std::string tool_parser;
  Value speculative;                        // null, a text, or a mapping
  std::string device;                       // auto | cpu | cuda
  std::optional<std::uint64_t> memory_max;  // bytes
  bool memory_auto = true;                  // the planner chooses memory flags (memory_tuning.hpp)
  std::vector<std::string> extra_flags;
  std::string api_key;
  std::map<std::string, std::string> env;
  std::optional<int> release;  // run this one of the node again instead of what the other inputs say
  Milliseconds ready_timeout{0};
  Milliseconds stall_timeout{0};

  std::string unit() const;    // "millwright-<name>.service"
  std::string user() const;    // "mw-<name>"
  std::string folder() const;  // /var/lib/millwright/servers/<name>
  // Where a client on the node connects to: the loopback for a server that listens everywhere.
  std::string probe_host() const;
};

Signature server_signature(const Knowledge& knowledge);

// Versions that can be installed: those of the data and those of the input `sources`, the latter stronger.
Value merged_sources(const EngineProfile& profile, const Inputs& inputs);
// "latest-known-good": the newest of the profile's list that has a source, else the highest version of the input's own.
Result<std::string> resolve_version(const EngineProfile& profile, const Inputs& inputs);
Result<ServerSpec> server_spec(const EngineProfile& profile, const Inputs& inputs);

}  // namespace millwright

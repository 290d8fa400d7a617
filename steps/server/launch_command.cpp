#include "steps/server/launch_command.hpp"

#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

using Words = std::vector<std::string>;

// {environment} in the data is the folder that the engine version is installed in.
std::string placed(const std::string& text, const ServerSpec& spec) {
  return replace_all(text, "{environment}", InstallJob{spec.engine, spec.version, {}, "", "", {}}.folder());
}

Words filled(const Words& row, const std::string& value, const ServerSpec& spec) {
  Words out;
  for (const std::string& word : row) out.push_back(replace_all(placed(word, spec), "{value}", value));
  return out;
}

std::string scalar_text(const Value& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// A mapping has a flag for each key where the engine spells it so, else it is one JSON text.
Words speculative_words(const ServerSpec& spec, const EngineProfile& profile) {
  const auto whole = profile.flags.find("speculative");
  const auto each = profile.flags.find("speculative_each");
  Words out;
  if (spec.speculative.is_object() && each != profile.flags.end()) {
    for (const auto& [key, value] : spec.speculative.items()) {
      for (const std::string& word : filled(each->second, scalar_text(value), spec))
        out.push_back(replace_all(word, "{key}", replace_all(key, "_", "-")));
    }
  } else if (!spec.speculative.is_null() && whole != profile.flags.end()) {
    out = filled(whole->second, scalar_text(spec.speculative), spec);
  }
  return out;
}

Words key_words(const ServerSpec& spec, const EngineProfile& profile) {
  if (spec.api_key.empty()) return {};
  const std::string current = spec.folder() + "/current/";
  if (!profile.api_key.file_flag.empty()) return filled(profile.api_key.file_flag, current + kApiKeyFile, spec);
  return filled(profile.api_key.config_flag, current + kApiKeyConfig, spec);
}

}  // namespace

std::vector<CommandPart> command_parts(const ServerSpec& spec, const EngineProfile& profile) {
  const auto number = [](const std::optional<std::int64_t>& value) {
    return value ? std::to_string(*value) : std::string();
  };
  const std::vector<std::pair<std::string, std::string>> values = {
      {"model", spec.model},
      {"served_name", spec.served_name},
      {"host", spec.host},
      {"port", std::to_string(spec.port)},
      {"context", number(spec.context)},
      {"max_requests", number(spec.max_requests)},
      {"tensor_parallel", number(spec.tensor_parallel)},
      {"kv_dtype", spec.kv_dtype},
      {"reasoning_parser", spec.reasoning_parser},
      {"tool_parser", spec.tool_parser},
      {"device", spec.device == "auto" ? "" : spec.device}};
  std::vector<CommandPart> out;
  for (const auto& [name, value] : values) {
    const auto flag = profile.flags.find(name);
    if (!value.empty() && flag != profile.flags.end()) out.push_back({name, filled(flag->second, value, spec)});
  }
  out.push_back({"speculative", speculative_words(spec, profile)});
  if (const auto device = profile.device_flags.find(spec.device); device != profile.device_flags.end())
    out.push_back({"device", filled(device->second, "", spec)});
  out.push_back({"api_key", key_words(spec, profile)});
  out.push_back({"extra_flags", spec.extra_flags});
  return out;
}

Words command_words(const ServerSpec& spec, const EngineProfile& profile) {
  Words out;
  for (const CommandPart& part : command_parts(spec, profile))
    out.insert(out.end(), part.words.begin(), part.words.end());
  return out;
}

std::map<std::string, std::string> server_environment(const ServerSpec& spec, const EngineProfile& profile) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : profile.env) out[name] = placed(value, spec);
  if (const auto device = profile.device_env.find(spec.device); device != profile.device_env.end()) {
    for (const auto& [name, value] : device->second) out[name] = placed(value, spec);
  }
  if (!profile.api_key.env.empty() && !spec.api_key.empty()) out[profile.api_key.env] = spec.api_key;
  for (const auto& [name, value] : spec.env) out[name] = value;
  return out;
}

std::vector<Error> unspellable(const EngineProfile& profile, const Inputs& inputs) {
  std::vector<Error> errors;
  const auto report = [&errors](const std::string& input, std::string message, std::string hint) {
    Error error = make_error(ErrorKind::invalid, std::move(message)).with_hint(std::move(hint));
    error.detail = input;
    errors.push_back(std::move(error));
  };
  const auto spelled = [&profile](const std::string& row) { return profile.flags.count(row) != 0; };
  const Words generic = {"served_name", "context",          "parallel",    "max_requests", "tensor_parallel",
                         "kv_dtype",    "reasoning_parser", "tool_parser", "speculative"};
  for (const std::string& name : generic) {
    if (!inputs.has(name) || (inputs.value(name).is_string() && inputs.string(name).empty())) continue;
    const std::string row = name == "parallel" ? "max_requests" : name;
    if (spelled(row) || (name == "speculative" && inputs.value(name).is_object() && spelled("speculative_each")))
      continue;
    report(name, profile.title + " has no flag for `" + name + "`",
           "leave it out, or give the engine's own words as extra_flags");
  }
  if (inputs.has("parallel") && inputs.has("max_requests") &&
      inputs.integer("parallel") != inputs.integer("max_requests")) {
    report("max_requests", "`parallel` and `max_requests` are two names of one thing", "give one of them");
  }
  if (inputs.has("api_key") && !inputs.string("api_key").empty() && !profile.api_key.known()) {
    report("api_key", profile.title + " takes no key except on its command line, where everybody on the node sees it",
           "put a proxy that checks keys before it, or say in engines.yml how it takes one");
  }
  const std::string device = inputs.string_or("device", "auto");
  const std::size_t said = profile.device_flags.count(device) + profile.device_env.count(device);
  // On NVIDIA GPUs every engine runs without being told.
  if (device != "auto" && device != "cuda" && said == 0 && !spelled("device")) {
    report("device", "engines.yml does not say how " + profile.title + " runs on " + device,
           "leave `device` out, or give the engine's own words as extra_flags");
  }
  return errors;
}

}  // namespace millwright

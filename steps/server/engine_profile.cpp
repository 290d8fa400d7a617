#include "steps/server/engine_profile.hpp"

#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

// std::regex reports a bad pattern by throwing; the data may be the user's own, so it becomes an error like any other.
Result<std::regex> compile(const std::string& engine, const std::string& pattern) {
  try {
    return std::regex(pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    return fail(make_error(ErrorKind::invalid, "engines.yml: " + engine + ": the pattern '" + pattern +
                                                   "' is no regular expression: " + error.what()));
  }
}

Result<void> read_patterns(const Value& row, EngineProfile& out) {
  auto ready = compile(out.id, row.at("ready").get<std::string>());
  if (!ready) return fail(ready.error());
  out.ready = *ready;
  for (const Value& stage : row.at("stages")) {
    auto match = compile(out.id, stage.at("match").get<std::string>());
    if (!match) return fail(match.error());
    const double fraction = stage.at("fraction");
    out.stages.push_back({*match, stage.at("title"), fraction, stage.value("until", fraction)});
  }
  for (const Value& fact : row.value("facts", Value::array())) {
    auto match = compile(out.id, fact.at("match").get<std::string>());
    if (!match) return fail(match.error());
    out.facts.push_back({fact.at("name"), *match});
  }
  for (const Value& failure : row.at("failures")) {
    auto match = compile(out.id, failure.at("match").get<std::string>());
    if (!match) return fail(match.error());
    out.failures.push_back({failure.at("class"), *match, failure.at("sentence")});
  }
  return {};
}

Result<void> read_command(const Value& row, EngineProfile& out) {
  using Words = std::vector<std::string>;
  using Environment = std::map<std::string, std::string>;
  out.fits_memory_itself = row.value("memory", "") == "engine";
  out.model_is_file = row.value("model", "") == "file";
  for (const auto& [name, words] : row.at("flags").items()) out.flags[name] = words.get<Words>();
  out.env = row.value("env", Environment{});
  const Value none = Value::object();
  const Value device_flags = row.value("device_flags", none);
  for (const auto& [device, words] : device_flags.items()) out.device_flags[device] = words.get<Words>();
  const Value device_env = row.value("device_env", none);
  for (const auto& [device, env] : device_env.items()) out.device_env[device] = env.get<Environment>();
  out.finds_device_itself = row.value("auto_device", "node") == "engine";
  const Value key = row.value("api_key", none);
  out.api_key.env = key.value("env", "");
  out.api_key.file_flag = key.value("file_flag", Words{});
  const Value config = key.value("config_file", none);
  out.api_key.config_flag = config.value("flag", Words{});
  out.api_key.config_content = config.value("content", "");
  if (key.size() > 1) return fail(ErrorKind::invalid, "engines.yml: " + out.id + ": api_key has more than one way");
  return {};
}

}  // namespace

std::vector<std::string> known_engines(const Knowledge& knowledge) {
  std::vector<std::string> names;
  const Value engines = knowledge.file("engines").value("engines", Value::object());
  for (const auto& [name, row] : engines.items()) names.push_back(name);
  return names;
}

Result<EngineProfile> engine_profile(const Knowledge& knowledge, const std::string& engine) {
  const Value engines = knowledge.file("engines").value("engines", Value::object());
  if (!engines.contains(engine)) {
    return fail(make_error(ErrorKind::invalid, "engines.yml does not describe the engine '" + engine + "'")
                    .with_hint("known: " + join(known_engines(knowledge), ", ")));
  }
  const Value& row = engines.at(engine);
  EngineProfile out;
  out.id = engine;
  out.title = row.at("title");
  out.executable = row.at("executable");
  out.default_port = row.at("default_port");
  out.health = row.at("health");
  for (const Value& known : row.at("known_good")) out.known_good.push_back(known.at("version"));
  out.methods = row.value("methods", Value::object());
  out.sources = row.at("sources");
  if (auto read = read_command(row, out); !read) return fail(read.error());
  if (auto read = read_patterns(row, out); !read) return fail(read.error());
  auto signs = log_signs(knowledge, engine);
  if (!signs) return fail(signs.error());
  out.signs = std::move(*signs);
  return out;
}

}  // namespace millwright

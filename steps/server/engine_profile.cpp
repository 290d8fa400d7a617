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
    out.stages.push_back({*match, stage.at("title"), stage.at("fraction")});
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
  for (const auto& [name, words] : row.at("flags").items()) out.flags[name] = words.get<std::vector<std::string>>();
  if (auto read = read_patterns(row, out); !read) return fail(read.error());
  return out;
}

}  // namespace millwright

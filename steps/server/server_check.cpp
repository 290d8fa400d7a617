// What can be said of a server step before anything is asked of a node: names, sources, flags and their values.
#include <arpa/inet.h>

#include <regex>
#include <utility>

#include "steps/server/launch_command.hpp"
#include "steps/server/planner/engine_facts.hpp"
#include "steps/server/server_step.hpp"

namespace millwright {

namespace {

std::vector<std::pair<std::string, Error>> unusable_address(const Inputs& inputs) {
  std::vector<std::pair<std::string, Error>> out;
  if (inputs.has("port") && inputs.value("port").is_number_integer()) {
    const auto port = inputs.integer("port");
    if (port < 1 || port > 65535) {
      out.emplace_back(
          "port",
          make_error(ErrorKind::invalid, "there is no port " + std::to_string(port)).with_hint("a port is 1 to 65535"));
    }
  }
  const std::string host = inputs.string_or("host", "");
  in6_addr address{};
  const bool looks_numeric = !host.empty() && host.find_first_not_of("0123456789.") == std::string::npos;
  const bool numeric = ::inet_pton(AF_INET, host.c_str(), &address) == 1;
  if ((looks_numeric && !numeric) ||
      (host.find(':') != std::string::npos && ::inet_pton(AF_INET6, host.c_str(), &address) != 1)) {
    out.emplace_back("host", make_error(ErrorKind::invalid, "'" + host + "' is no address")
                                 .with_hint("127.0.0.1 for this node alone, 0.0.0.0 for everybody"));
  }
  return out;
}

// systemd's EnvironmentFile: one variable a line.
std::vector<Error> unusable_environment(const Value& env) {
  static const std::regex name("[A-Za-z_][A-Za-z0-9_]*");
  std::vector<Error> out;
  if (!env.is_object()) return out;
  for (const auto& [key, value] : env.items()) {
    if (!std::regex_match(key, name))
      out.push_back(make_error(ErrorKind::invalid, "'" + key + "' is no name of an environment variable")
                        .with_hint("letters, digits and underscores"));
    if (value.is_string() && value.get<std::string>().find_first_of(std::string("\n\r\0", 3)) != std::string::npos)
      out.push_back(make_error(ErrorKind::invalid, "the value of " + key + " has a line break")
                        .with_hint("an environment file has one line for each variable"));
  }
  return out;
}

}  // namespace

std::vector<Error> ServerStep::check(const Inputs& inputs) const {
  std::vector<Error> errors;
  const auto report = [&errors](Error error, const std::string& input) {
    error.detail = input;
    errors.push_back(std::move(error));
  };
  // systemd and useradd both take these names; user names have at most 32 bytes, "mw-" included.
  static const std::regex name("[a-z][a-z0-9-]{0,28}");
  if (inputs.has("name") && !std::regex_match(inputs.string("name"), name)) {
    report(make_error(ErrorKind::invalid, "'" + inputs.string("name") + "' is no name for a server")
               .with_hint("lower-case letters, digits and dashes, at most 29"),
           "name");
  }
  for (auto& [input, error] : unusable_address(inputs)) report(std::move(error), input);
  for (Error& error : unusable_environment(inputs.value("env"))) report(std::move(error), "env");
  const Value& sources = inputs.value("sources");
  if (sources.is_object()) {
    for (const auto& [version, source] : sources.items()) {
      if (has_unknown(source)) continue;
      const EngineInstaller* installer = find_installer(source_text(source, "method"));
      if (installer == nullptr) {
        report(make_error(ErrorKind::invalid,
                          "the source of version " + version + " needs a method: archive, wheel or uv"),
               "sources");
        continue;
      }
      for (Error& error : installer->check(source))
        report(wrap(std::move(error), "source of version " + version), "sources");
    }
  }
  if (inputs.has("engine")) {
    for (Error& error : check_command(inputs)) errors.push_back(std::move(error));
  }
  return errors;
}

// Only what is known by now: an input that is an expression over outputs of earlier steps is absent.
std::vector<Error> ServerStep::check_command(const Inputs& inputs) const {
  if (!inputs.has("engine")) return {};
  auto profile = engine_profile(knowledge_, inputs.string("engine"));
  if (!profile) return {profile.error()};
  if (inputs.has("release")) return {};  // its command is as it was then
  std::vector<Error> errors = unspellable(*profile, inputs);
  const std::vector<std::string> extra =
      has_unknown(inputs.value("extra_flags")) ? std::vector<std::string>{} : inputs.strings("extra_flags");
  for (Error& error : forbidden_flags(extra)) errors.push_back(std::move(error));
  const auto version = resolve_version(*profile, inputs);
  if (!version && inputs.has("version") && !inputs.value("sources").is_null() &&
      !has_unknown(inputs.value("sources"))) {
    Error error = version.error();
    error.detail = "version";
    errors.push_back(std::move(error));
  }
  if (!version || !errors.empty()) return errors;
  const Value source = merged_sources(*profile, inputs).at(*version);
  std::unique_ptr<KnownFlags> known;
  if (!source_text(source, "launcher").empty()) {
    auto job = install_job(profile->id, *version, source, profile->executable);
    if (!job) return {job.error()};
    known = launcher_flags(*profile, *version, job->launcher);
  }
  if (!known) {
    if (!flag_knowledge()) return flag_knowledge().error();
    known = engine_flags(*flag_knowledge(), *profile, *version);
  }
  if (!known) return errors;
  Value given = inputs.all();
  if (!inputs.has("model")) given["model"] = "/model";
  // An expression that is not known yet has whatever value is usual.
  for (const InputSpec& input : signature_.inputs) {
    const bool absent = !given.contains(input.name) || given.at(input.name).is_null();
    if (absent && !input.default_value.is_null()) given[input.name] = input.default_value;
  }
  if (has_unknown(inputs.value("extra_flags"))) given["extra_flags"] = Value::array();
  const auto spec = server_spec(*profile, Inputs(given));
  return spec ? unknown_flags(*known, command_parts(*spec, *profile)) : errors;
}

// Read when the first server is checked: it is large, and no other verb needs it.
const tl::expected<Knowledge, std::vector<Error>>& ServerStep::flag_knowledge() const {
  static const tl::expected<Knowledge, std::vector<Error>> flags =
      load_knowledge(planner::planner_folders(knowledge_folders()));
  return flags;
}

}  // namespace millwright

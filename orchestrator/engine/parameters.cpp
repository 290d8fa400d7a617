#include "orchestrator/engine/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/redact.hpp"

namespace millwright {

namespace {

constexpr const char* hidden = "[secret]";

Value target_value(const Target& target) {
  Value out = {{"name", target.name},
               {"via", target.via == Via::ssh ? "ssh" : "local"},
               {"address", target.address},
               {"user", target.user},
               {"identity_file", target.identity_file},
               {"ssh_config_file", target.ssh_config_file},
               {"known_hosts_file", target.known_hosts_file},
               {"ssh_args", target.ssh_args},
               {"become", target.become == Become::root},
               {"become_method", target.become_method},
               {"become_user", target.become_user},
               {"password", target.password.empty() ? "" : hidden},
               {"become_password", target.become_password.empty() ? "" : hidden},
               {"connect_timeout_ms", target.connect_timeout.count()}};
  if (target.port) out["port"] = *target.port;
  if (target.host_key_policy) out["host_key_policy"] = static_cast<int>(*target.host_key_policy);
  return out;
}

Target target_of(const Value& value) {
  Target target;
  target.name = value.at("name").get<std::string>();
  target.via = value.at("via") == "local" ? Via::local : Via::ssh;
  target.address = value.at("address").get<std::string>();
  target.user = value.at("user").get<std::string>();
  target.identity_file = value.at("identity_file").get<std::string>();
  target.ssh_config_file = value.at("ssh_config_file").get<std::string>();
  target.known_hosts_file = value.at("known_hosts_file").get<std::string>();
  target.ssh_args = value.at("ssh_args").get<std::vector<std::string>>();
  target.become = value.at("become").get<bool>() ? Become::root : Become::no;
  target.become_method = value.at("become_method").get<std::string>();
  target.become_user = value.at("become_user").get<std::string>();
  target.password = value.at("password").get<std::string>();
  target.become_password = value.at("become_password").get<std::string>();
  target.connect_timeout = Milliseconds(value.at("connect_timeout_ms").get<long>());
  if (value.contains("port")) target.port = value["port"].get<int>();
  if (value.contains("host_key_policy")) {
    target.host_key_policy = static_cast<HostKeyPolicy>(value["host_key_policy"].get<int>());
  }
  return target;
}

bool holds_hidden(const Value& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().find(hidden) != std::string::npos;
  if (value.is_structured()) return std::any_of(value.begin(), value.end(), holds_hidden);
  return false;
}

// Only what was hidden is taken from today: the rest stays as it was applied.
Value refreshed(const Value& kept, const Value& today) {
  if (kept == hidden && !today.is_null()) return today;  // a secret input, of whatever type
  if (kept.is_string()) return holds_hidden(kept) && today.is_string() ? today : kept;
  Value out = kept;
  if (kept.is_object() && today.is_object()) {
    for (auto& [key, item] : out.items()) {
      if (today.contains(key)) item = refreshed(item, today[key]);
    }
  } else if (kept.is_array() && today.is_array() && kept.size() == today.size()) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = refreshed(out[i], today[i]);
  }
  return out;
}

Value options_value(const RunOptions& options) {
  return {{"forks", options.forks},
          {"tags", options.tags},
          {"skip_tags", options.skip_tags},
          {"start_at", options.start_at},
          {"no_rollback", options.no_rollback},
          {"pipelining", options.pipelining == Pipelining::on},
          {"node_state_dir", options.node_state_dir}};
}

void refresh_host(PlayHost& host, const std::vector<PlayHost>& today) {
  const auto now = std::find_if(today.begin(), today.end(),
                                [&](const PlayHost& other) { return other.target.name == host.target.name; });
  if (now == today.end()) return;
  host.vars = refreshed(host.vars, now->vars);
  if (!host.target.password.empty()) host.target.password = now->target.password;
  if (!host.target.become_password.empty()) host.target.become_password = now->target.become_password;
}

}  // namespace

Value parameters_value(const RunParameters& parameters) {
  Value hosts = Value::array();
  for (const PlayHost& host : parameters.hosts) {
    hosts.push_back({{"target", target_value(host.target)}, {"vars", host.vars}, {"groups", host.groups}});
  }
  return redactor().redact_value(
      {{"inputs", parameters.inputs}, {"hosts", std::move(hosts)}, {"options", options_value(parameters.options)}});
}

Result<RunParameters> parameters_of(const Value& value, const RunOptions& today) {
  RunParameters out;
  try {
    out.inputs = refreshed(value.at("inputs"), today.refreshed_inputs);
    for (const Value& entry : value.at("hosts")) {
      PlayHost host;
      host.target = target_of(entry.at("target"));
      host.vars = entry.at("vars");
      host.groups = entry.at("groups").get<std::vector<std::string>>();
      refresh_host(host, today.refreshed_hosts);
      out.hosts.push_back(std::move(host));
    }
    const Value& options = value.at("options");
    out.options = today;
    out.options.forks = options.at("forks").get<int>();
    out.options.tags = options.at("tags").get<std::vector<std::string>>();
    out.options.skip_tags = options.at("skip_tags").get<std::vector<std::string>>();
    out.options.start_at = options.at("start_at").get<std::string>();
    out.options.no_rollback = options.at("no_rollback").get<bool>() || today.no_rollback;
    out.options.pipelining = options.value("pipelining", true) ? Pipelining::on : Pipelining::off;
    out.options.node_state_dir = options.at("node_state_dir").get<std::string>();
  } catch (const Value::exception& problem) {
    return fail(ErrorKind::invalid,
                fmt::format("the journal's record of the run is not understood: {}", problem.what()));
  }
  for (const PlayHost& host : out.hosts) {
    if (host.target.password == hidden || host.target.become_password == hidden) {
      return fail(make_error(ErrorKind::invalid,
                             "the journal keeps no passwords, and the one of " + host.target.name + " is not known now")
                      .with_hint("give the inventory again with -i, so that it can be looked up"));
    }
  }
  return out;
}

Result<void> inputs_known(const Value& inputs) {
  for (const auto& [name, value] : inputs.items()) {
    if (!holds_hidden(value)) continue;
    return fail(make_error(ErrorKind::usage,
                           fmt::format("the journal keeps no secrets, and the input '{}' of the run was one", name))
                    .with_hint(fmt::format("give it again: -e {}=VALUE, or -e @FILE", name)));
  }
  return {};
}

}  // namespace millwright

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "inventory/connection_names.hpp"
#include "inventory/data.hpp"
#include "inventory/ini_words.hpp"
#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright {
namespace {

using Merged = std::map<std::string, std::pair<Value, const Definition*>>;

struct Setting {
  Value value;
  const Definition* from = nullptr;
};

// Fills a Target from one host's variables; the first mistake ends it.
class TargetReader {
 public:
  TargetReader(const Inventory::Data& data, std::string host, Merged merged)
      : data_(data), host_(std::move(host)), merged_(std::move(merged)) {}

  Result<Target> read() {
    Target target;
    target.name = host_;
    text("host", target.address);
    text("user", target.user);
    text("identity_file", target.identity_file);
    text("ssh_config_file", target.ssh_config_file);
    text("known_hosts_file", target.known_hosts_file);
    password("password", target.password);
    text("become_user", target.become_user);
    text("become_method", target.become_method);
    password("become_password", target.become_password);
    for (std::string* path : {&target.identity_file, &target.ssh_config_file, &target.known_hosts_file})
      expand_home(*path);
    connection(target);
    port(target);
    become(target);
    host_keys(target);
    arguments(target);
    timeout(target);
    if (error_) return fail(wrap(std::move(*error_), fmt::format("finding out how to reach {}", host_)));
    return target;
  }

 private:
  static const ConnectionName& names(std::string_view plain) {
    const auto& all = connection_names();
    return *std::find_if(all.begin(), all.end(), [&](const ConnectionName& name) { return name.plain == plain; });
  }

  std::vector<Setting> settings(std::string_view plain) {
    std::vector<Setting> found;
    const auto own = merged_.find(std::string(plain));
    if (own != merged_.end() && own->second.second->plain == PlainNames::connection) add(found, own->second);
    for (std::string_view name : names(plain).ansible) {
      if (const auto entry = merged_.find(std::string(name)); entry != merged_.end()) add(found, entry->second);
    }
    return found;
  }

  void add(std::vector<Setting>& found, const std::pair<Value, const Definition*>& entry) {
    const auto& [value, from] = entry;
    if (value.is_null()) return;
    if (value.is_object() && value.contains(kVaultKey)) {
      wrong(*from, fmt::format("'{}' is encrypted by ansible-vault, which millwright does not read", from->name),
            "write it as !secret env:NAME, file:PATH or command:CMD");
      return;
    }
    auto plain = data_.resolved(value, from->mark);
    if (!plain) {
      if (!error_) error_ = plain.error();
      return;
    }
    if (plain->is_string() && plain->get<std::string>().find("{{") != std::string::npos) {
      wrong(*from, fmt::format("'{}' holds an expression; how to reach a host must be known beforehand", from->name),
            "write the value itself; for secrets !secret env:NAME");
      return;
    }
    found.push_back({std::move(*plain), from});
  }

  std::optional<Setting> setting(std::string_view plain) {
    std::vector<Setting> found = settings(plain);
    if (found.empty()) return std::nullopt;
    return found.back();
  }

  void wrong(const Definition& at, std::string message, std::string hint = {}) {
    if (!error_) error_ = make_error(ErrorKind::invalid, std::move(message)).at(at.mark).with_hint(std::move(hint));
  }

  void text(std::string_view plain, std::string& into) {
    const auto found = setting(plain);
    if (!found) return;
    if (found->value.is_string()) {
      into = found->value.get<std::string>();
    } else if (found->value.is_number()) {
      into = found->value.dump();
    } else {
      wrong(*found->from, fmt::format("'{}' must be text, not {}", found->from->name, found->value.dump()));
    }
  }

  void password(std::string_view plain, std::string& into) {
    text(plain, into);
    if (!into.empty()) redactor().add(into);
  }

  static void expand_home(std::string& path) {
    const char* home = std::getenv("HOME");
    if (starts_with(path, "~/") && home != nullptr) path = home + path.substr(1);
  }

  void connection(Target& target) {
    const auto found = setting("connection");
    if (!found) return;
    std::string kind = found->value.is_string() ? found->value.get<std::string>() : found->value.dump();
    if (starts_with(kind, "ansible.builtin.")) kind = kind.substr(16);
    if (kind == "local") {
      target.via = Via::local;
    } else if (kind != "ssh" && kind != "smart" && kind != "paramiko" && kind != "paramiko_ssh") {
      wrong(*found->from, fmt::format("connection '{}' is not known", kind), "known are ssh and local");
    }
  }

  void port(Target& target) {
    const auto found = setting("port");
    if (!found) return;
    const std::string text = found->value.is_string() ? found->value.get<std::string>() : found->value.dump();
    int number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || number < 1 || number > 65535) {
      wrong(*found->from, fmt::format("'{}' must be a port number, not {}", found->from->name, found->value.dump()),
            "ports go from 1 to 65535");
      return;
    }
    target.port = number;
  }

  std::optional<bool> boolean(const Setting& found) {
    if (found.value.is_boolean()) return found.value.get<bool>();
    std::string text = found.value.is_string() ? found.value.get<std::string>() : found.value.dump();
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const char* word : {"yes", "true", "on", "y", "t", "1", "1.0"}) {
      if (text == word) return true;
    }
    for (const char* word : {"no", "false", "off", "n", "f", "0", "0.0"}) {
      if (text == word) return false;
    }
    wrong(*found.from, fmt::format("'{}' must be yes or no, not {}", found.from->name, found.value.dump()));
    return std::nullopt;
  }

  void become(Target& target) {
    if (const auto found = setting("become")) {
      if (const auto wanted = boolean(*found)) target.become = *wanted ? Become::root : Become::no;
    }
    if (target.become == Become::no || target.become_method == "sudo") return;
    const auto method = setting("become_method");
    if (method) wrong(*method->from, fmt::format("become by '{}' is not built yet", target.become_method), "use sudo");
  }

  void host_keys(Target& target) {
    const auto found = setting("host_key_checking");
    if (!found) return;
    if (found->value == "accept-new") {
      target.host_key_policy = HostKeyPolicy::accept_new;
    } else if (const auto strict = boolean(*found)) {
      target.host_key_policy = *strict ? HostKeyPolicy::strict : HostKeyPolicy::off;
    }
  }

  void arguments(Target& target) {
    for (const Setting& found : settings("ssh_args")) {
      if (found.value.is_array()) {
        for (const Value& word : found.value) {
          if (word.is_string()) {
            target.ssh_args.push_back(word.get<std::string>());
          } else {
            wrong(*found.from, fmt::format("'{}' must be a list of text", found.from->name));
          }
        }
        continue;
      }
      const auto words =
          split_ini_words(found.value.is_string() ? found.value.get<std::string>() : found.value.dump(), Comments::no);
      if (!words) {
        wrong(*found.from,
              fmt::format("'{}' cannot be split into arguments: {}", found.from->name, words.error().message));
        continue;
      }
      for (const IniWord& word : *words) target.ssh_args.push_back(word.text);
    }
  }

  void timeout(Target& target) {
    const auto found = setting("connect_timeout");
    if (!found) return;
    const auto duration =
        parse_duration(found->value.is_string() ? found->value.get<std::string>() : found->value.dump());
    if (!duration) {
      wrong(*found->from,
            fmt::format("'{}' must be a duration such as 15s, not {}", found->from->name, found->value.dump()));
      return;
    }
    target.connect_timeout = *duration;
  }

  const Inventory::Data& data_;
  std::string host_;
  Merged merged_;
  std::optional<Error> error_;
};

}  // namespace

Result<Target> Inventory::target(const std::string& host) const {
  if (data_->find_host(host) == nullptr)
    return fail(make_error(ErrorKind::invalid, fmt::format("there is no host '{}' in the inventory", host))
                    .with_hint("millwright inventory --graph shows all hosts"));
  return TargetReader(*data_, host, data_->merged(host)).read();
}

}  // namespace millwright

// From values as written to settings ready for use.
#include <openssl/evp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/transport/ssh_config.hpp"
#include "orchestrator/transport/ssh_tokens.hpp"

namespace millwright {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string local_host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string connection_hash(const SshTokens& tokens) {
  const std::string text = local_host_name() + tokens.host + tokens.port + tokens.user + tokens.jump;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

class Resolver {
 public:
  Resolver(const SshQuery& query, const SshValues& values) : values_(values) {
    const passwd* account = getpwuid(geteuid());
    tokens_.home = !query.home.empty() ? query.home : account != nullptr ? account->pw_dir : "/";
    tokens_.local_user = !query.local_user.empty() ? query.local_user : account != nullptr ? account->pw_name : "root";
    tokens_.original_host = query.host;
    settings_.original_host = query.host;
  }

  Result<SshSettings> resolve() {
    for (const auto& part : {&Resolver::refuse_unsupported, &Resolver::where, &Resolver::numbers, &Resolver::identities,
                             &Resolver::known_hosts, &Resolver::proxies, &Resolver::methods}) {
      if (auto done = (this->*part)(); !done) return Failure(done.error());
    }
    return std::move(settings_);
  }

 private:
  const std::string* one(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() || found->second.empty() ? nullptr : &found->second[0];
  }
  bool is(const std::string& key, bool otherwise) const {
    const std::string* value = one(key);
    if (value == nullptr) return otherwise;
    const std::string text = lower(*value);
    return text != "no" && text != "false" && text != "none";
  }

  // Settings that would change whom we trust or how we get there, and are not honoured here.
  Result<void> refuse_unsupported() {
    for (const char* key : {"revokedhostkeys", "knownhostscommand", "canonicalizehostname", "proxyusefdpass",
                            "bindaddress", "bindinterface"}) {
      if (!is(key, false)) continue;
      return fail(make_error(ErrorKind::invalid, std::string("ssh setting '") + key + "' (for " +
                                                     settings_.original_host + ") is not supported by millwright")
                      .with_hint("override it for millwright, e.g. with a config of its own (ssh_config_file)"));
    }
    return {};
  }

  Result<void> where() {
    const std::string* port = one("port");
    if (port != nullptr) {
      const auto [end, error] = std::from_chars(port->data(), port->data() + port->size(), settings_.port);
      if (error != std::errc() || *end != '\0' || settings_.port < 1 || settings_.port > 65535) {
        return fail(ErrorKind::invalid,
                    "'" + *port + "' is not a port (ssh setting Port for " + tokens_.original_host + ")");
      }
    }
    const std::string* user = one("user");
    settings_.user = user != nullptr ? *user : tokens_.local_user;
    tokens_.port = std::to_string(settings_.port);
    tokens_.user = settings_.user;
    tokens_.host = tokens_.original_host;
    const std::string* host = one("hostname");
    const std::string* alias = one("hostkeyalias");
    if (host != nullptr) {
      auto expanded = expand_tokens(*host, tokens_);
      if (!expanded) return Failure(wrap(expanded.error(), "reading HostName"));
      tokens_.host = *expanded;
    }
    settings_.host = tokens_.host = lower(tokens_.host);
    if (alias != nullptr) settings_.host_key_alias = *alias;
    tokens_.key_alias = alias != nullptr ? *alias : tokens_.original_host;
    if (const std::string* family = one("addressfamily")) settings_.address_family = *family;
    return {};
  }

  Result<void> number(const char* key, int& into) {
    const std::string* text = one(key);
    if (text == nullptr || lower(*text) == "none") return {};
    const auto duration = parse_duration(*text);
    if (!duration) return Failure(wrap(duration.error(), std::string("reading ssh setting ") + key));
    into = static_cast<int>(duration->count() / 1000);
    return {};
  }

  Result<void> numbers() {
    if (auto done = number("connecttimeout", settings_.connect_timeout); !done) return done;
    if (auto done = number("serveraliveinterval", settings_.alive_interval); !done) return done;
    return number("serveralivecountmax", settings_.alive_count);
  }

  Result<void> paths(const std::string& key, std::vector<std::string>& into) {
    const auto found = values_.find(key);
    if (found == values_.end()) return {};
    for (const std::string& text : found->second) {
      if (lower(text) == "none") continue;
      auto path = expand_path(text, tokens_);
      if (!path) return Failure(wrap(path.error(), "reading ssh setting " + key));
      into.push_back(*path);
    }
    return {};
  }

  Result<void> identities() {
    if (auto done = paths("identityfile", settings_.identity_files); !done) return done;
    if (auto done = paths("certificatefile", settings_.certificate_files); !done) return done;
    settings_.identities_named = values_.count("identityfile") != 0;
    settings_.identities_only = is("identitiesonly", false);
    if (!settings_.identities_named) {
      for (const char* name : {"id_rsa", "id_ecdsa", "id_ed25519"}) {
        settings_.identity_files.push_back(tokens_.home + "/.ssh/" + name);
      }
    }
    const char* socket = std::getenv("SSH_AUTH_SOCK");
    settings_.identity_agent = socket != nullptr ? socket : "";
    const std::string* agent = one("identityagent");
    if (agent == nullptr || *agent == "SSH_AUTH_SOCK") return {};
    settings_.identity_agent.clear();
    if (lower(*agent) == "none") return {};
    if (starts_with(*agent, "$") && !starts_with(*agent, "${")) {
      const char* value = std::getenv(agent->c_str() + 1);
      settings_.identity_agent = value != nullptr ? value : "";
      return {};
    }
    auto path = expand_path(*agent, tokens_);
    if (!path) return Failure(wrap(path.error(), "reading ssh setting IdentityAgent"));
    settings_.identity_agent = *path;
    return {};
  }

  Result<void> known_hosts() {
    if (auto done = paths("userknownhostsfile", settings_.user_known_hosts); !done) return done;
    if (values_.count("userknownhostsfile") == 0) {
      settings_.user_known_hosts = {tokens_.home + "/.ssh/known_hosts", tokens_.home + "/.ssh/known_hosts2"};
    }
    if (auto done = paths("globalknownhostsfile", settings_.global_known_hosts); !done) return done;
    if (values_.count("globalknownhostsfile") == 0) {
      settings_.global_known_hosts = {"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"};
    }
    settings_.hash_known_hosts = is("hashknownhosts", false);
    if (const std::string* strict = one("stricthostkeychecking")) {
      const std::string text = lower(*strict);
      settings_.strict_host_key_checking = text == "true" ? "yes" : text == "false" || text == "off" ? "no" : text;
      if (text != "yes" && text != "true" && text != "no" && text != "false" && text != "off" && text != "ask" &&
          text != "accept-new") {
        return fail(ErrorKind::invalid, "'" + *strict + "' is no value for StrictHostKeyChecking");
      }
    }
    return {};
  }

  Result<void> proxies() {
    if (const std::string* jump = one("proxyjump"); jump != nullptr && lower(*jump) != "none")
      settings_.proxy_jump = *jump;
    const std::string* command = one("proxycommand");
    if (command == nullptr || lower(*command) == "none") return {};
    auto expanded = expand_tokens(*command, tokens_);
    if (!expanded) return Failure(wrap(expanded.error(), "reading ssh setting ProxyCommand"));
    settings_.proxy_command = *expanded;
    return {};
  }

  Result<void> methods() {
    settings_.public_key_auth = is("pubkeyauthentication", true);
    settings_.password_auth = is("passwordauthentication", true);
    settings_.keyboard_auth = is("kbdinteractiveauthentication", true);
    if (const std::string* preferred = one("preferredauthentications")) {
      const auto has = [&](const char* name) {
        const std::vector<std::string> all = split(*preferred, ',');
        return std::find(all.begin(), all.end(), name) != all.end();
      };
      settings_.public_key_auth = settings_.public_key_auth && has("publickey");
      settings_.password_auth = settings_.password_auth && has("password");
      settings_.keyboard_auth = settings_.keyboard_auth && has("keyboard-interactive");
    }
    for (const auto& [key, into] :
         {std::pair("kexalgorithms", &settings_.key_exchange), std::pair("ciphers", &settings_.ciphers),
          std::pair("macs", &settings_.macs), std::pair("hostkeyalgorithms", &settings_.host_key_algorithms),
          std::pair("pubkeyacceptedalgorithms", &settings_.public_key_algorithms)}) {
      if (const std::string* text = one(key)) *into = *text;
    }
    return {};
  }

  const SshValues& values_;
  SshTokens tokens_;
  SshSettings settings_;
};

}  // namespace

Result<std::string> expand_tokens(const std::string& text, const SshTokens& tokens) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const char token = i + 1 < text.size() ? text[++i] : '\0';
    const std::string host = local_host_name();
    switch (token) {
      case '%':
        out += '%';
        break;
      case 'C':
        out += connection_hash(tokens);
        break;
      case 'd':
        out += tokens.home;
        break;
      case 'h':
        out += tokens.host;
        break;
      case 'i':
        out += std::to_string(geteuid());
        break;
      case 'j':
        out += tokens.jump;
        break;
      case 'k':
        out += tokens.key_alias;
        break;
      case 'L':
        out += host.substr(0, host.find('.'));
        break;
      case 'l':
        out += host;
        break;
      case 'n':
        out += tokens.original_host;
        break;
      case 'p':
        out += tokens.port;
        break;
      case 'r':
        out += tokens.user;
        break;
      case 'u':
        out += tokens.local_user;
        break;
      default:
        return fail(ErrorKind::invalid, std::string("unknown token '%") + (token != '\0' ? std::string(1, token) : "") +
                                            "' in '" + text + "'");
    }
  }
  return out;
}

Result<std::string> expand_path(const std::string& text, const SshTokens& tokens) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = text.find("${", at);
    const std::size_t close = open == std::string::npos ? open : text.find('}', open);
    if (close == std::string::npos) {
      out += text.substr(at);
      break;
    }
    const std::string name = text.substr(open + 2, close - open - 2);
    const char* value = std::getenv(name.c_str());
    if (value == nullptr)
      return fail(ErrorKind::invalid, "the environment variable " + name + " in '" + text + "' is not set");
    out += text.substr(at, open - at) + value;
    at = close + 1;
  }
  auto expanded = expand_tokens(out, tokens);
  if (expanded && (starts_with(*expanded, "~/") || *expanded == "~")) return tokens.home + expanded->substr(1);
  return expanded;
}

Result<SshSettings> resolve_ssh(const SshQuery& query) {
  auto values = read_ssh_config(query);
  if (!values) return Failure(values.error());
  return Resolver(query, *values).resolve();
}

Result<std::vector<JumpHost>> parse_jumps(const std::string& text) {
  std::vector<JumpHost> jumps;
  for (std::string part : split(text, ',')) {
    const std::string whole = part;
    if (starts_with(part, "ssh://")) part = part.substr(6);
    JumpHost jump;
    const std::size_t at = part.rfind('@');
    if (at != std::string::npos) {
      jump.user = part.substr(0, at);
      part.erase(0, at + 1);
    }
    std::size_t colon = part.rfind(':');
    if (starts_with(part, "[")) {
      const std::size_t close = part.find(']');
      if (close == std::string::npos)
        return fail(ErrorKind::invalid, "'" + whole + "' is no jump host: ']' is missing");
      colon = close + 1 < part.size() ? close + 1 : std::string::npos;
      jump.host = part.substr(1, close - 1);
    } else {
      jump.host = part.substr(0, colon);
    }
    if (colon != std::string::npos) {
      const int port = std::atoi(part.c_str() + colon + 1);
      if (port < 1 || port > 65535) return fail(ErrorKind::invalid, "'" + whole + "' is no jump host: bad port");
      jump.port = port;
    }
    if (jump.host.empty()) return fail(ErrorKind::invalid, "'" + whole + "' is no jump host: [user@]host[:port]");
    jumps.push_back(std::move(jump));
  }
  return jumps;
}

}  // namespace millwright

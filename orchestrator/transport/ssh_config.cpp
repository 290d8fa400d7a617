#include "orchestrator/transport/ssh_config.hpp"

#include <glob.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/transport/known_hosts.hpp"
#include "orchestrator/transport/ssh_keywords.hpp"
#include "orchestrator/transport/ssh_tokens.hpp"

namespace millwright {
namespace {

constexpr int kMaxIncludeDepth = 16;  // as OpenSSH

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

struct Line {
  std::string key;
  std::string rest;  // as written, after the keyword and its separator
  std::vector<std::string> words;
};

// Quotes, backslash escapes of quotes and backslashes, and a comment that starts a word.
bool split_words(std::string_view text, std::vector<std::string>& words) {
  for (std::size_t i = 0; i < text.size();) {
    if (std::isspace(static_cast<unsigned char>(text[i])) != 0) {
      ++i;
      continue;
    }
    if (text[i] == '#') return true;
    std::string word;
    char quote = 0;
    for (; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '\\' && i + 1 < text.size() &&
          (text[i + 1] == '\'' || text[i + 1] == '"' || text[i + 1] == '\\' || (quote == 0 && text[i + 1] == ' '))) {
        word += text[++i];
      } else if (quote == 0 && std::isspace(static_cast<unsigned char>(c)) != 0) {
        break;
      } else if (quote == 0 && (c == '"' || c == '\'')) {
        quote = c;
      } else if (quote != 0 && c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    }
    if (quote != 0) return false;
    words.push_back(word);
  }
  return true;
}

class Reader {
 public:
  Reader(const SshQuery& query, SshValues& values) : query_(query), values_(values) {}

  Result<void> read_file(const std::string& path, bool user_file, int depth, bool parent_active) {
    std::ifstream file(path);
    bool active = parent_active;
    std::string text;
    for (int number = 1; std::getline(file, text); ++number) {
      SourceMark mark{path, number, 1, 1, text};
      auto done = read_line(text, mark, user_file, depth, parent_active, active);
      if (!done) return done;
    }
    return {};
  }

  Result<void> read_option(const std::string& text) {
    bool active = true;
    return read_line(text, SourceMark{"ssh argument -o", 1, 1, 1, text}, true, 0, true, active);
  }

  void set(const std::string& key, const std::vector<std::string>& words) {
    if (ssh_values_add_up(key)) {
      std::vector<std::string>& all = values_[key];
      for (const std::string& word : words) {
        if (std::find(all.begin(), all.end(), word) == all.end()) all.push_back(word);
      }
      return;
    }
    // Whichever of the two comes first stands for both; "ProxyJump none" leaves room for a command.
    const auto jump = values_.find("proxyjump");
    if (key == "proxycommand" && jump != values_.end() && lower(jump->second[0]) != "none") return;
    if (key == "proxyjump" && values_.count("proxycommand") != 0) return;
    values_.emplace(key, words);
  }

 private:
  static Failure bad(const SourceMark& mark, const std::string& message) {
    return fail(make_error(ErrorKind::invalid, message).at(mark));
  }

  Result<Line> parse(const std::string& text, const SourceMark& mark) const {
    Line line;
    std::string_view body = trim(text);
    if (body.empty() || body[0] == '#') return line;
    std::size_t end = 0;
    while (end < body.size() && std::isspace(static_cast<unsigned char>(body[end])) == 0 && body[end] != '=') ++end;
    line.key = lower(std::string(body.substr(0, end)));
    if (line.key.size() > 1 && line.key.front() == '"' && line.key.back() == '"') {
      line.key = line.key.substr(1, line.key.size() - 2);
    }
    body = trim(body.substr(end));
    if (!body.empty() && body[0] == '=') body = trim(body.substr(1));
    line.rest = std::string(body);
    if (!split_words(body, line.words)) return bad(mark, "a quote is not closed");
    if (line.words.empty()) return bad(mark, "'" + line.key + "' has no value");
    return line;
  }

  Result<void> read_line(const std::string& text, const SourceMark& mark, bool user_file, int depth, bool parent_active,
                         bool& active) {
    auto parsed = parse(text, mark);
    if (!parsed) return Failure(parsed.error());
    Line& line = *parsed;
    if (line.key.empty()) return {};
    if (line.key == "host") {
      active = parent_active && host_fits(line.words);
      return {};
    }
    if (line.key == "match") {
      auto fits = match_fits(line.words, mark, parent_active);
      if (!fits) return Failure(fits.error());
      active = parent_active && *fits;
      return {};
    }
    if (line.key == "include") {
      if (!active) return {};
      return include(line.words, mark, user_file, depth);
    }
    line.key = ssh_current_name(line.key);
    if (!is_ssh_keyword(line.key)) return unknown(line, mark);
    if (!active) return {};
    if (line.key == "proxycommand" || line.key == "remotecommand" || line.key == "localcommand")
      line.words = {line.rest};
    set(line.key, line.words);
    return {};
  }

  Result<void> unknown(const Line& line, const SourceMark& mark) const {
    const auto ignored = values_.find("ignoreunknown");
    if (ignored != values_.end()) {
      for (const std::string& pattern : split(ignored->second[0], ',')) {
        if (match_wildcard(line.key, lower(pattern))) return {};
      }
    }
    Error error = make_error(ErrorKind::invalid, "unknown ssh setting '" + line.key + "'").at(mark);
    const auto near = nearest(line.key, ssh_keywords());
    if (near) error.with_hint("did you mean '" + *near + "'?");
    return fail(std::move(error));
  }

  bool host_fits(const std::vector<std::string>& patterns) const {
    bool fits = false;
    for (const std::string& pattern : patterns) {
      if (starts_with(pattern, "!")) {
        if (match_wildcard(query_.host, std::string_view(pattern).substr(1))) return false;
      } else if (match_wildcard(query_.host, pattern)) {
        fits = true;
      }
    }
    return fits;
  }

  static bool list_fits(const std::string& text, const std::string& list) {
    bool fits = false;
    for (const std::string& pattern : split(list, ',')) {
      if (starts_with(pattern, "!")) {
        if (match_wildcard(text, pattern.substr(1))) return false;
      } else if (match_wildcard(text, pattern)) {
        fits = true;
      }
    }
    return fits;
  }

  Result<bool> match_fits(std::vector<std::string> words, const SourceMark& mark, bool judge) {
    if (words.size() == 1 && lower(words[0]) == "all") return true;
    bool all = true;
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::string name = lower(words[i]);
      const bool negated = starts_with(name, "!");
      if (negated) name.erase(0, 1);
      std::string value;
      const std::size_t equals = words[i].find('=');
      if (equals != std::string::npos) {
        name = name.substr(0, name.find('='));
        value = words[i].substr(equals + 1);
      } else if (i + 1 < words.size()) {
        value = words[++i];
      }
      if (name == "all") return bad(mark, "Match all cannot be combined with other criteria");
      auto fits = criterion_fits(name, value, mark, judge && all);
      if (!fits) return fits;
      if (*fits == negated) all = false;
    }
    return all;
  }

  Result<bool> criterion_fits(const std::string& name, const std::string& value, const SourceMark& mark, bool run) {
    if (name == "canonical" || name == "final") {
      return fail(
          make_error(ErrorKind::invalid, "Match " + name + " is not supported by millwright")
              .at(mark)
              .with_hint("millwright does not canonicalize host names; use another ssh config (ssh_config_file)"));
    }
    if (value.empty()) return bad(mark, "Match " + name + " has no value");
    if (name == "host") return list_fits(lower(current_host()), lower(value));
    if (name == "originalhost") return list_fits(lower(query_.host), lower(value));
    if (name == "user") return list_fits(first("user", query_.local_user), value);
    if (name == "localuser") return list_fits(query_.local_user, value);
    if (name == "exec") return run ? exec_succeeds(value) : Result<bool>(false);
    return fail(make_error(ErrorKind::invalid, "Match " + name + " is not supported by millwright").at(mark));
  }

  Result<bool> exec_succeeds(const std::string& command) {
    auto expanded = expand_tokens(command, tokens());
    if (!expanded) return Failure(expanded.error());
    const std::string line = "exec /bin/sh -c " + shell_quote(*expanded) + " </dev/null >/dev/null 2>&1";
    const int status = std::system(line.c_str());
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  SshTokens tokens() const {
    SshTokens tokens;
    tokens.original_host = query_.host;
    tokens.host = current_host();
    tokens.port = first("port", "22");
    tokens.user = first("user", query_.local_user);
    tokens.local_user = query_.local_user;
    tokens.home = query_.home;
    tokens.key_alias = first("hostkeyalias", query_.host);
    return tokens;
  }

  std::string first(const std::string& key, const std::string& otherwise) const {
    const auto found = values_.find(key);
    return found == values_.end() ? otherwise : found->second[0];
  }

  std::string current_host() const {
    const std::string name = first("hostname", "%h");
    return replace_all(replace_all(name, "%h", query_.host), "%%", "%");
  }

  Result<void> include(const std::vector<std::string>& patterns, const SourceMark& mark, bool user_file, int depth) {
    if (depth + 1 > kMaxIncludeDepth) return bad(mark, "Include goes deeper than 16 files: does one include itself?");
    for (std::string pattern : patterns) {
      if (starts_with(pattern, "~/")) {
        pattern = query_.home + pattern.substr(1);
      } else if (!starts_with(pattern, "/")) {
        pattern = (user_file ? query_.home + "/.ssh/" : "/etc/ssh/") + pattern;
      }
      glob_t found{};
      std::vector<std::string> paths;
      if (glob(pattern.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
      globfree(&found);
      for (const std::string& path : paths) {
        if (auto done = read_file(path, user_file, depth + 1, true); !done) return done;
      }
    }
    return {};
  }

  const SshQuery& query_;
  SshValues& values_;
};

// One argument of ssh's own command line. `next` is called when the value is a word of its own.
Result<void> read_argument(const std::string& argument, const std::function<Result<std::string>()>& next,
                           Reader& reader, std::string& config_file) {
  static constexpr std::string_view kWithValue = "oJiplF", kHarmless = "qvCTxakn";
  if (argument == "-4" || argument == "-6") {
    reader.set("addressfamily", {argument == "-4" ? "inet" : "inet6"});
    return {};
  }
  if (argument.size() < 2 || argument[0] != '-' || kWithValue.find(argument[1]) == std::string_view::npos) {
    const bool harmless =
        argument.size() > 1 && argument[0] == '-' && argument.find_first_not_of(kHarmless, 1) == std::string::npos;
    if (harmless) return {};
    return fail(make_error(ErrorKind::invalid, "ssh argument '" + argument + "' is not supported")
                    .with_hint("known: -o Key=Value, -J jump, -i file, -p port, -l user, -F file"));
  }
  std::string value(trim(std::string_view(argument).substr(2)));
  if (value.empty()) {
    auto word = next();
    if (!word) return Failure(word.error());
    value = *word;
  }
  switch (argument[1]) {
    case 'o':
      return reader.read_option(value);
    case 'J':
      reader.set("proxyjump", {value});
      break;
    case 'i':
      reader.set("identityfile", {value});
      break;
    case 'p':
      reader.set("port", {value});
      break;
    case 'l':
      reader.set("user", {value});
      break;
    default:
      config_file = value;
  }
  return {};
}

}  // namespace

Result<SshValues> read_ssh_config(const SshQuery& given) {
  SshQuery query = given;
  const passwd* account = getpwuid(geteuid());
  if (query.home.empty()) query.home = account != nullptr ? account->pw_dir : "/";
  if (query.local_user.empty()) query.local_user = account != nullptr ? account->pw_name : "root";
  SshValues values;
  Reader reader(query, values);
  if (!query.user.empty()) reader.set("user", {query.user});
  if (query.port) reader.set("port", {std::to_string(*query.port)});
  for (std::size_t i = 0; i < query.args.size(); ++i) {
    const auto next = [&]() -> Result<std::string> {
      if (i + 1 < query.args.size()) return query.args[++i];
      return fail(ErrorKind::invalid, "ssh argument '" + query.args[i] + "' has no value");
    };
    const std::string argument = query.args[i];
    if (auto done = read_argument(argument, next, reader, query.config_file); !done) return Failure(done.error());
  }
  if (query.config_file == "none") return values;
  if (!query.config_file.empty()) {
    const std::string path =
        starts_with(query.config_file, "~/") ? query.home + query.config_file.substr(1) : query.config_file;
    if (access(path.c_str(), R_OK) != 0) return fail(ErrorKind::invalid, "cannot read the ssh config " + path);
    if (auto done = reader.read_file(path, true, 0, true); !done) return Failure(done.error());
    return values;
  }
  if (auto done = reader.read_file(query.home + "/.ssh/config", true, 0, true); !done) return Failure(done.error());
  if (auto done = reader.read_file("/etc/ssh/ssh_config", false, 0, true); !done) return Failure(done.error());
  return values;
}

}  // namespace millwright

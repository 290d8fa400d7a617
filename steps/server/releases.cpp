#include "steps/server/releases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright {

namespace {

constexpr const char* kScript = R"sh(for d in /var/lib/millwright/servers/*/; do
  [ -d "$d" ] || continue
  name=$(basename "$d")
  active=$(systemctl is-active "millwright-$name.service" 2>/dev/null) || :
  echo "server $name ${active:-unknown} $(readlink "${d}current" 2>/dev/null || echo none)"
  for r in "$d"releases/*/; do
    [ -e "$r/release.json" ] || continue
    echo "release $(basename "$r") $(tr -d '\n' <"$r/release.json")"
    [ ! -e "$r/verified" ] || echo "verified $(head -n 1 "$r/verified")"
  done
done
for e in /opt/millwright/engines/*/; do
  [ -d "$e" ] || continue
  state=partial; [ ! -e "$e.millwright-environment" ] || state=whole
  echo "environment $(du -sk "$e" | cut -f 1) $state ${e%/}"
done
if [ -d /opt/millwright ]; then echo "together $(du -sk /opt/millwright | cut -f 1)"; fi
)sh";

std::string rest_of(std::istringstream& words) {
  std::string rest;
  std::getline(words >> std::ws, rest);
  return rest;
}

std::string text_of(const Value& record, const char* key) {
  return record.contains(key) && record.at(key).is_string() ? record.at(key).get<std::string>() : "";
}

bool is_among(const std::string& word, std::initializer_list<const char*> flags) {
  return std::any_of(flags.begin(), flags.end(),
                     [&](const char* flag) { return word == flag || starts_with(word, std::string(flag) + "="); });
}

// As playbooks/knowledge/engines.yml spells them, and what their users may write themselves.
void read_command(const std::vector<std::string>& words, ReleaseRow& row) {
  row.command = shell_join(words);
  const auto first =
      std::find_if(words.begin(), words.end(), [](const std::string& word) { return starts_with(word, "--"); });
  for (auto word = first; word != words.end(); ++word) {
    const bool context = is_among(*word, {"--ctx-size", "-c", "--context-length", "--max-model-len"});
    const bool said =
        is_among(*word, {"--model", "--model-path", "--alias", "--served-model-name", "--host", "--port"});
    if (!context && !said) {
      row.flags.push_back(*word);
      continue;
    }
    const std::size_t equals = word->find('=');
    const bool apart = equals == std::string::npos && word + 1 != words.end();
    if (context && (apart || equals != std::string::npos)) row.context = apart ? *(word + 1) : word->substr(equals + 1);
    if (apart) ++word;
  }
}

Result<void> read_release(std::istringstream& words, const std::string& current, ServerRow& server) {
  ReleaseRow row;
  words >> row.number;
  const Value record = Value::parse(rest_of(words), nullptr, false);
  if (!record.is_object()) {
    return fail(ErrorKind::invalid,
                fmt::format("release {} of {} has a damaged release.json", row.number, server.name));
  }
  row.current = current == "releases/" + std::to_string(row.number);
  row.engine = text_of(record, "engine");
  row.version = text_of(record, "version");
  row.model = text_of(record, "model");
  row.model_sha256 = text_of(record, "model_sha256");
  row.device = text_of(record, "device");
  row.environment = text_of(record, "environment");
  row.run = text_of(record, "made_by_run");
  const Value command = record.value("command", Value::array());
  if (command.is_array() &&
      std::all_of(command.begin(), command.end(), [](const Value& one) { return one.is_string(); }))
    read_command(command.get<std::vector<std::string>>(), row);
  row.host = text_of(record, "host");
  row.port = record.value("port", 0);
  if (row.current) {
    server.host = row.host == "0.0.0.0" || row.host == "::" ? "127.0.0.1" : row.host;
    server.port = row.port;
    server.has_key = record.value("has_key", false);
  }
  server.releases.push_back(std::move(row));
  return {};
}

std::string model_name(const ReleaseRow& row) {
  return row.model.substr(row.model.rfind('/') + 1) +
         (row.model_sha256.empty() ? "" : " (" + row.model_sha256.substr(0, 12) + ")");
}

std::string columns(const std::vector<std::vector<std::string>>& rows);

std::string flags_table(const NodeReleases& found) {
  std::vector<std::vector<std::string>> rows = {{"server", "release", "flags"}};
  for (const ServerRow& server : found.servers) {
    for (const ReleaseRow& row : server.releases)
      rows.push_back({server.name, std::to_string(row.number), row.flags.empty() ? "-" : shell_join(row.flags)});
  }
  return columns(rows);
}

// Cells padded to the widest of their column.
std::string columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace

const ReleaseRow* ServerRow::find(int number) const {
  const auto found =
      std::find_if(releases.begin(), releases.end(), [number](const ReleaseRow& row) { return row.number == number; });
  return found == releases.end() ? nullptr : &*found;
}

std::string releases_script() { return kScript; }

Result<NodeReleases> parse_releases(const std::string& text) {
  NodeReleases out;
  std::string current;
  for (const std::string& line : split_lines(text)) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "server") {
      ServerRow row;
      words >> row.name >> row.active >> current;
      out.servers.push_back(std::move(row));
    } else if (kind == "release" && !out.servers.empty()) {
      if (auto read = read_release(words, current, out.servers.back()); !read) return fail(read.error());
    } else if (kind == "verified" && !out.servers.empty() && !out.servers.back().releases.empty()) {
      ReleaseRow& row = out.servers.back().releases.back();
      words >> row.verdict >> row.verified_at;
    } else if (kind == "environment") {
      EnvironmentRow row;
      std::uint64_t kilobytes = 0;
      std::string state;
      words >> kilobytes >> state;
      row.bytes = kilobytes * 1024;
      row.whole = state == "whole";
      row.folder = rest_of(words);
      out.environments.push_back(std::move(row));
    } else if (kind == "together") {
      words >> out.together;
      out.together *= 1024;
    } else if (!trim(line).empty()) {
      return fail(ErrorKind::invalid, "the node said something else than its releases: " + line.substr(0, 120));
    }
  }
  for (ServerRow& server : out.servers) {
    std::sort(server.releases.begin(), server.releases.end(),
              [](const ReleaseRow& left, const ReleaseRow& right) { return left.number < right.number; });
    for (const ReleaseRow& release : server.releases) {
      for (EnvironmentRow& environment : out.environments) {
        if (environment.folder == release.environment)
          environment.used_by.push_back(server.name + " " + std::to_string(release.number));
      }
    }
  }
  return out;
}

std::string releases_table(const std::string& node, const NodeReleases& found, ReleaseFlags flags) {
  if (found.servers.empty() && found.environments.empty()) return node + ": no server of millwright\n";
  std::vector<std::vector<std::string>> rows = {
      {node, "release", "engine", "model", "port", "context", "verified", "state"}};
  for (const ServerRow& server : found.servers) {
    if (server.releases.empty()) rows.push_back({server.name, "-", "-", "-", "-", "-", "-", server.active});
    for (const ReleaseRow& row : server.releases) {
      rows.push_back({server.name, std::to_string(row.number), row.engine + " " + row.version, model_name(row),
                      row.port > 0 ? std::to_string(row.port) : "-", row.context.empty() ? "-" : row.context,
                      row.verified() ? row.verdict + " " + row.verified_at : "no",
                      row.current ? "current, " + server.active : ""});
    }
  }
  std::string out = columns(rows);
  if (flags == ReleaseFlags::shown) out += "\n" + flags_table(found);
  if (found.environments.empty()) return out;
  rows = {{"environment", "size", "used by"}};
  for (const EnvironmentRow& row : found.environments) {
    rows.push_back({row.folder, format_size(row.bytes),
                    !row.whole            ? "nothing: its installation was interrupted"
                    : row.used_by.empty() ? "nothing"
                                          : join(row.used_by, ", ")});
  }
  return out + "\n" + columns(rows) + "together " + format_size(found.together) +
         "; files that they share count once\n";
}

Value releases_json(const std::string& node, const NodeReleases& found) {
  Value servers = Value::array();
  for (const ServerRow& server : found.servers) {
    Value releases = Value::array();
    for (const ReleaseRow& row : server.releases) {
      releases.push_back({{"number", row.number},
                          {"current", row.current},
                          {"engine", row.engine},
                          {"version", row.version},
                          {"device", row.device},
                          {"model", row.model},
                          {"model_sha256", row.model_sha256},
                          {"environment", row.environment},
                          {"host", row.host},
                          {"port", row.port > 0 ? Value(row.port) : Value()},
                          {"context", row.context.empty() ? Value() : Value(row.context)},
                          {"flags", row.flags},
                          {"command", row.command},
                          {"made_by_run", row.run},
                          {"verified", row.verified() ? Value(row.verdict) : Value()},
                          {"verified_at", row.verified() ? Value(row.verified_at) : Value()}});
    }
    servers.push_back(
        {{"name", server.name}, {"active", server.active}, {"port", server.port}, {"releases", std::move(releases)}});
  }
  Value environments = Value::array();
  for (const EnvironmentRow& row : found.environments) {
    environments.push_back(
        {{"folder", row.folder}, {"bytes", row.bytes}, {"whole", row.whole}, {"used_by", row.used_by}});
  }
  return {{"node", node},
          {"servers", std::move(servers)},
          {"environments", std::move(environments)},
          {"environments_bytes", found.together}};
}

Unneeded unneeded(const NodeReleases& found) {
  Unneeded out;
  std::set<std::string> kept;
  for (const ServerRow& server : found.servers) {
    const auto current =
        std::find_if(server.releases.begin(), server.releases.end(), [](const ReleaseRow& row) { return row.current; });
    const ReleaseRow* last_verified = nullptr;
    for (const ReleaseRow& row : server.releases) {
      if (row.verified() && (last_verified == nullptr || row.verified_at >= last_verified->verified_at))
        last_verified = &row;
    }
    for (const ReleaseRow& row : server.releases) {
      // Without a current one nobody can say which of them is wanted.
      const bool stays = current == server.releases.end() || row.current || &row == last_verified;
      if (stays) kept.insert(row.environment);
      if (!stays) out.releases.emplace_back(server.name, row.number);
    }
  }
  for (const EnvironmentRow& row : found.environments) {
    if (!row.whole || kept.count(row.folder) == 0) out.environments.push_back(row);
  }
  return out;
}

std::string prune_script(const Unneeded& gone) {
  std::string out = "failed=0\n";
  for (const auto& [server, number] : gone.releases) {
    const std::string folder = "/var/lib/millwright/servers/" + server;
    const std::string release = "releases/" + std::to_string(number);
    out += fmt::format(
        "if [ \"$(readlink {0}/current 2>/dev/null)\" = {1} ]; then echo 'release {2} of {3} runs now' >&2; failed=1\n"
        // The number is never used again: undo scripts of earlier runs know releases by it.
        "else rm -rf --one-file-system {0}/{1}; last=$(cat {0}/last 2>/dev/null) || last=0\n"
        "  if [ \"${{last:-0}}\" -lt {2} ]; then echo {2} > {0}/last; fi\nfi\n",
        shell_quote(folder), release, number, server);
  }
  for (const EnvironmentRow& row : gone.environments) {
    const std::string folder = shell_quote(row.folder);
    out += fmt::format(
        "if grep -lqsF {0}/ /var/lib/millwright/servers/*/releases/*/run; then echo {0}' is in use now' >&2; failed=1\n"
        "else rm -rf --one-file-system {0}; fi\n",
        folder);
  }
  if (!gone.environments.empty()) {
    out +=
        "if [ -z \"$(ls -A /opt/millwright/engines 2>/dev/null)\" ]; then\n"
        "  rm -rf --one-file-system /opt/millwright/cache /opt/millwright/tools\nfi\n"
        "rmdir /opt/millwright/engines /opt/millwright 2>/dev/null || :\n";
  }
  return out + "exit $failed\n";
}

}  // namespace millwright

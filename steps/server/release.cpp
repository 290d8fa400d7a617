#include "steps/server/release.hpp"

#include <sstream>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/server/launch_command.hpp"
#include "steps/server/unit_file.hpp"

namespace millwright {

namespace {

std::string release_folder(const ServerSpec& spec, int number) {
  return spec.folder() + "/releases/" + std::to_string(number);
}

// systemd's EnvironmentFile is no shell: double quotes with C-style escapes of the quote and the backslash.
std::string env_text(const std::map<std::string, std::string>& env) {
  std::string out;
  for (const auto& [key, value] : env) {
    out += key + "=\"" + replace_all(replace_all(value, "\\", "\\\\"), "\"", "\\\"") + "\"\n";
  }
  return out;
}

FilePlacement text_file(std::string path, const std::string& text, std::string mode, std::string group = {}) {
  FilePlacement file;
  file.path = std::move(path);
  file.content = std::make_shared<const std::string>(text);
  file.mode = std::move(mode);
  file.owner = "root";
  file.group = group.empty() ? "root" : std::move(group);
  return file;
}

std::string fill(std::string script, const ServerSpec& spec, int number) {
  script = replace_all(std::move(script), "@FOLDER@", shell_quote(spec.folder()));
  script = replace_all(std::move(script), "@USER@", shell_quote(spec.user()));
  script = replace_all(std::move(script), "@UNIT@", shell_quote(spec.unit()));
  script = replace_all(std::move(script), "@PORT@", std::to_string(spec.port));
  script = replace_all(std::move(script), "@MODEL@", shell_quote(spec.model));
  return replace_all(std::move(script), "@N@", std::to_string(number));
}

constexpr const char* kPrepare = R"sh(umask 027
getent group millwright >/dev/null || groupadd --system millwright
if ! getent passwd @USER@ >/dev/null; then
  useradd --system --user-group --groups millwright --no-create-home --home-dir /nonexistent \
    --shell /usr/sbin/nologin @USER@
fi
mkdir -p /var/lib/millwright/servers @FOLDER@/releases/@N@
chmod 0711 /var/lib/millwright /var/lib/millwright/servers
for d in @FOLDER@ @FOLDER@/releases @FOLDER@/releases/@N@; do chown root:@USER@ "$d"; chmod 0750 "$d"; done
)sh";

// The user goes only when this made it and no other release needs it.
constexpr const char* kUndoPrepare = R"sh(if [ "$(readlink @FOLDER@/current 2>/dev/null)" = releases/@N@ ]; then
  echo "release @N@ is still the current one of "@FOLDER@ >&2; exit 65
fi
rm -rf --one-file-system @FOLDER@/releases/@N@
if rmdir @FOLDER@/releases 2>/dev/null; then rm -f @FOLDER@/last; fi
rmdir @FOLDER@ /var/lib/millwright/servers 2>/dev/null || :
if [ ! -e @FOLDER@ ] && [ -e "$MW_SAVE/no-user" ] && getent passwd @USER@ >/dev/null; then
  rm -rf --one-file-system /var/cache/"millwright-${MW_NAME:-none}"
  userdel @USER@
fi
if [ -e "$MW_SAVE/no-group" ] && getent group millwright >/dev/null; then groupdel millwright 2>/dev/null || :; fi
)sh";

constexpr const char* kSaveSwitch = R"sh(readlink @FOLDER@/current > "$MW_SAVE/previous" 2>/dev/null || :
systemctl is-active @UNIT@ > "$MW_SAVE/active" 2>/dev/null || :
systemctl is-enabled @UNIT@ > "$MW_SAVE/enabled" 2>/dev/null || :
if [ -e /etc/systemd/system/@UNIT@ ]; then cp -p /etc/systemd/system/@UNIT@ "$MW_SAVE/unit"; fi
)sh";

// How it is; how often systemd has restarted it, and for how many seconds it has run now.
constexpr const char* kActive = R"sh(systemctl is-active @UNIT@ 2>/dev/null || :
n=$(systemctl show -P NRestarts @UNIT@ 2>/dev/null) || n=0
since=$(date -d "$(systemctl show -P ActiveEnterTimestamp @UNIT@ 2>/dev/null)" +%s 2>/dev/null) || since=0
echo "${n:-0} $(($(date +%s) - ${since:-0}))"
)sh";

// A restart after a fault of the host is no loop; two, and the last within the time that the unit's own limit of
// restarts looks at (StartLimitIntervalSec), are.
constexpr int kLoopRestarts = 2;
constexpr long kLoopSeconds = 900;

// The old one first goes wholly: two may not fit beside each other, and one that kills itself may leave processes that
// hold the GPU.
constexpr const char* kSwitch = R"sh(stop_server @UNIT@
install -m 0644 @FOLDER@/releases/@N@/unit /etc/systemd/system/@UNIT@
ln -sfn releases/@N@ @FOLDER@/current.new; mv -T @FOLDER@/current.new @FOLDER@/current
systemctl daemon-reload
systemctl enable -q @UNIT@
systemctl reset-failed @UNIT@ 2>/dev/null || :
systemctl --no-block start @UNIT@
)sh";

constexpr const char* kUndoSwitch = R"sh(now=$(readlink @FOLDER@/current 2>/dev/null) || :
before=$(cat "$MW_SAVE/previous" 2>/dev/null) || :
ran=$(cat "$MW_SAVE/active" 2>/dev/null) || :
if [ "$now" != releases/@N@ ] && [ "$now" != "$before" ]; then
  by=$(sed -n 's/^ *"made_by_run": "\(.*\)",\{0,1\}$/\1/p' @FOLDER@/"$now"/release.json 2>/dev/null) || :
  echo @FOLDER@" was switched to $now since, by ${by:+run }${by:-someone else}; take that back first" >&2; [ -n "${MW_FORCE:-}" ] || exit 65
fi
if [ "$now" = "$before" ] && [ -n "$now" ]; then
  if [ ! -e "$MW_SAVE/unit" ]; then exit 0; fi
  if cmp -s "$MW_SAVE/unit" /etc/systemd/system/@UNIT@; then
    if [ "$ran" != active ] || systemctl -q is-active @UNIT@; then exit 0; fi  # else it was stopped, but not switched
  fi
fi
if [ -n "$before" ] && [ ! -d @FOLDER@/"$before" ]; then
  echo "release $before is no longer on the node; release @N@ stays" >&2; exit 1
fi
stop_server @UNIT@
if [ -z "$before" ]; then
  systemctl disable -q @UNIT@ 2>/dev/null || :
  rm -f /etc/systemd/system/@UNIT@ @FOLDER@/current
  systemctl daemon-reload; systemctl reset-failed @UNIT@ 2>/dev/null || :
  exit 0
fi
cp -p "$MW_SAVE/unit" /etc/systemd/system/@UNIT@
ln -sfn "$before" @FOLDER@/current.new; mv -T @FOLDER@/current.new @FOLDER@/current
systemctl daemon-reload; systemctl reset-failed @UNIT@ 2>/dev/null || :
if [ "$(cat "$MW_SAVE/enabled")" != enabled ]; then systemctl disable -q @UNIT@ 2>/dev/null || :; fi
[ "$ran" = active ] || exit 0
systemctl start @UNIT@
probe() {
  if command -v curl >/dev/null; then curl -fsS -m 5 -o /dev/null "$1"
  else python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)' "$1"; fi
}
url=$(cat @FOLDER@/current/health)
n=0
until probe "$url" 2>/dev/null; do
  state=$(systemctl show -P ActiveState @UNIT@)
  case $state in failed|inactive) echo "the previous release did not start: $state" >&2; exit 1 ;; esac
  n=$((n + 1)); [ $n -lt 570 ] || { echo "the previous release does not answer $url" >&2; exit 1; }
  sleep 1
done
)sh";

}  // namespace

Release make_release(const ServerSpec& spec, const EngineProfile& profile, const std::string& environment_identity,
                     const std::string& run) {
  const InstallJob job{spec.engine, spec.version, spec.source, profile.executable, "", {}};
  std::vector<std::string> command = command_words(spec, profile);
  command.insert(command.begin(), job.folder() + "/" + profile.executable);
  Release out;
  out.run = "#!/bin/sh\nexec " + shell_join(command) + "\n";
  out.unit = unit_text(spec);
  out.env = env_text(server_environment(spec, profile));
  out.client_key = spec.api_key;
  if (!spec.api_key.empty() && !profile.api_key.file_flag.empty()) out.api_key = spec.api_key + "\n";
  if (!spec.api_key.empty() && !profile.api_key.config_flag.empty())
    out.api_key_config = replace_all(profile.api_key.config_content, "{value}", Value(spec.api_key).dump());
  out.health = "http://" + spec.probe_host() + ":" + std::to_string(spec.port) + profile.health;
  out.digest = sha256_hex(
      join({out.run, out.unit, out.env, out.api_key, out.api_key_config, environment_identity, spec.model_sha256},
           "\n--\n"));
  out.record = {{"server", spec.name},
                {"engine", spec.engine},
                {"version", spec.version},
                {"environment", job.folder()},
                {"environment_identity", environment_identity},
                {"model", spec.model},
                {"model_sha256", spec.model_sha256},
                {"command", command},
                {"host", spec.host},
                {"port", spec.port},
                {"device", spec.device},
                {"has_key", !spec.api_key.empty()},
                {"digest", out.digest},
                {"made_by_run", run},
                {"run_sha256", sha256_hex(out.run)},
                {"unit_sha256", sha256_hex(out.unit)}};
  return out;
}

namespace {

// Digests of a release's other files lie beside them: some of those hold keys.
std::string sums_of(const Action& action) {
  std::string out;
  for (const FilePlacement& file : action.files)
    out += sha256_hex(*file.content) + "  " + file.path.substr(file.path.rfind('/') + 1) + "\n";
  return out;
}

// What is not as it was put there: contents, modes, drop-ins that change the unit, and whether it starts at boot.
constexpr const char* kTampered = R"sh([ -e @FOLDER@/current/sums ] || exit 0
cd @FOLDER@/current/
sha256sum -c --quiet sums 2>/dev/null | sed -n 's/^\([^:]*\):.*/changed \1/p' || :
find . -maxdepth 1 -type f \( -perm /022 -o -perm /007 -o \( -name env -o -name @CLIENT_KEY@ \) -perm /077 \) |
  sed 's|^\./|mode |'
for f in /etc/systemd/system/@UNIT@.d/*.conf /run/systemd/system/@UNIT@.d/*.conf; do
  if [ -e "$f" ]; then echo "drop-in $f"; fi
done
)sh";
constexpr const char* kEnabled = "systemctl is-enabled @UNIT@ 2>/dev/null || :\n";
constexpr const char* kEnvironmentOfCurrent =
    R"sh($(sed -n 's/^ *"environment": "\(.*\)",\{0,1\}$/\1/p' @FOLDER@/current/release.json 2>/dev/null))sh";

}  // namespace

std::vector<Question> deployed_questions(const ServerSpec& spec) {
  return {
      {.key = "current", .script = fill("readlink @FOLDER@/current 2>/dev/null || :\n", spec, 0)},
      {.key = "releases",
       .script = fill("for d in @FOLDER@/releases/*/; do\n"
                      "  [ -d \"$d\" ] || continue\n"
                      "  echo \"$(basename \"$d\") $(tr -d '\\n' < \"$d/release.json\" 2>/dev/null || :)\"\ndone\n"
                      // A number is never given twice, not even that of a release which was pruned.
                      "cat @FOLDER@/last 2>/dev/null || :\n",
                      spec, 0)},
      {.key = "record", .script = fill("cat @FOLDER@/current/release.json 2>/dev/null || :\n", spec, 0)},
      {.key = "files",
       .script = fill("for f in @FOLDER@/current/run /etc/systemd/system/@UNIT@; do\n"
                      "  sha256sum < \"$f\" 2>/dev/null | cut -d ' ' -f 1 || :\ndone\n",
                      spec, 0)},
      {.key = "tampered", .script = fill(replace_all(kTampered, "@CLIENT_KEY@", kClientKey), spec, 0)},
      {.key = "enabled", .script = fill(kEnabled, spec, 0)},
      {.key = "environment_damage",
       .script = environment_damage_script(fill(std::string("\"") + kEnvironmentOfCurrent + "\"", spec, 0))},
      {.key = "active", .script = fill(kActive, spec, 0)},
      {.key = "model",
       .script = fill("if [ -d @MODEL@ ]; then echo folder; elif [ -e @MODEL@ ]; then echo there; fi\n", spec, 0)},
      {.key = "gpus", .script = "for d in /dev/nvidia[0-9]*; do if [ -c \"$d\" ]; then echo there; break; fi; done\n"},
      {.key = "port", .script = port_holder_script(spec)},
  };
}

DeployedServer read_deployed(const Answers& answers) {
  DeployedServer out;
  const std::string current = answers.text("current");
  if (starts_with(current, "releases/")) out.current = std::atoi(current.substr(9).c_str());
  for (const std::string& line : split_lines(answers.text("releases"))) {
    const int number = std::atoi(line.c_str());
    out.highest = std::max(out.highest, number);
    const Value found = Value::parse(line.substr(std::min(line.find(' '), line.size())), nullptr, false);
    if (found.is_object()) out.records[number] = found;
  }
  const Value record = Value::parse(answers.text("record"), nullptr, false);
  if (record.is_object()) out.record = record;
  out.digest = out.record.value("digest", "");
  const std::vector<std::string> files = split_lines(answers.text("files"));
  out.files_unchanged = files.size() == 2 && files[0] == out.record.value("run_sha256", "") &&
                        files[1] == out.record.value("unit_sha256", "");
  for (const std::string& line : split_lines(answers.text("tampered"))) {
    const std::string what = line.substr(std::min(line.find(' ') + 1, line.size()));
    if (starts_with(line, "drop-in ")) out.drop_ins.push_back(what);
    if (starts_with(line, "changed ") || starts_with(line, "mode ")) out.files_unchanged = false;
    if (starts_with(line, "mode ")) out.findings.push_back("others may read or write its file " + what);
    if (starts_with(line, "changed ")) out.findings.push_back("its file " + what + " was changed by hand");
  }
  out.environment_damage = answers.text("environment_damage");
  out.enabled = answers.text("enabled") != "disabled";
  const std::vector<std::string> active = split_lines(answers.text("active"));
  if (!active.empty()) out.active = active[0];
  if (active.size() > 1) {
    std::istringstream words(active[1]);
    long age = 0;
    words >> out.restarts >> age;
    out.dies_again_and_again = out.restarts >= kLoopRestarts && age < kLoopSeconds;
  }
  out.model_is_folder = answers.text("model") == "folder";
  out.model_there = out.model_is_folder || answers.text("model") == "there";
  out.gpus_there = answers.text("gpus") == "there";
  out.port_holder = answers.text("port");
  return out;
}

std::optional<int> release_before(const DeployedServer& deployed, const std::string& model_sha256,
                                  const std::string& run) {
  const auto fits = [&](const Value& record) {
    return !model_sha256.empty() && record.value("model_sha256", "") == model_sha256 &&
           record.value("made_by_run", "") != run;
  };
  if (deployed.current && fits(deployed.record)) return deployed.current;
  for (auto it = deployed.records.rbegin(); it != deployed.records.rend(); ++it) {
    if (fits(it->second)) return it->first;
  }
  return std::nullopt;
}

Value describe_replaced(const DeployedServer& deployed, const std::string& run) {
  const Value& record = deployed.record;
  const bool running = deployed.current && (deployed.active == "active" || deployed.active == "activating");
  if (!running || record.value("made_by_run", "") == run) return nullptr;
  const std::string model = record.value("model", "");
  const std::string host = record.value("host", "");
  const std::string at = host == "0.0.0.0" || host == "::" ? "127.0.0.1" : host;
  const int port = record.value("port", 0);
  return {{"title", "release " + std::to_string(*deployed.current) + " (" + record.value("engine", "") + " " +
                        record.value("version", "") + ", " + model.substr(model.rfind('/') + 1) + ")"},
          {"outputs",
           {{"endpoint", "http://" + at + ":" + std::to_string(port) + "/v1"},
            {"host", at},
            {"port", port},
            {"engine", record.value("engine", "")},
            {"version", record.value("version", "")},
            {"model", model},
            {"release", *deployed.current}}}};
}

Action prepare_action(const ServerSpec& spec, int number) {
  Action action;
  action.title = "make user " + spec.user() + " and the folder of release " + std::to_string(number);
  action.save = fill(
      "getent passwd @USER@ >/dev/null || : > \"$MW_SAVE/no-user\"\n"
      "getent group millwright >/dev/null || : > \"$MW_SAVE/no-group\"\n",
      spec, number);
  action.script = fill(kPrepare, spec, number);
  action.undo = "MW_NAME=" + shell_quote(spec.name) + "\n" + fill(kUndoPrepare, spec, number);
  action.undo_title = "remove the folder of release " + std::to_string(number) + " and, if new, its user";
  return action;
}

Action place_release_action(const ServerSpec& spec, const Release& release, int number) {
  const std::string folder = release_folder(spec, number);
  Action action;
  action.title = "write release " + std::to_string(number) + ": " + spec.engine + " " + spec.version;
  action.files.push_back(text_file(folder + "/run", release.run, "0750", spec.user()));
  action.files.push_back(text_file(folder + "/unit", release.unit, "0640"));
  action.files.push_back(text_file(folder + "/env", release.env, "0600"));
  action.files.push_back(text_file(folder + "/" + kEnded, ended_text(), "0750", spec.user()));
  if (spec.device == "cuda")
    action.files.push_back(text_file(folder + "/" + kAwaitGpus, await_gpus_text(), "0750", spec.user()));
  action.files.push_back(text_file(folder + "/health", release.health + "\n", "0640"));
  if (!release.api_key.empty())
    action.files.push_back(text_file(folder + "/" + kApiKeyFile, release.api_key, "0640", spec.user()));
  if (!release.api_key_config.empty())
    action.files.push_back(text_file(folder + "/" + kApiKeyConfig, release.api_key_config, "0640", spec.user()));
  if (!release.client_key.empty())
    action.files.push_back(text_file(folder + "/" + kClientKey, release.client_key + "\n", "0600"));
  action.files.push_back(text_file(folder + "/release.json", release.record.dump(2) + "\n", "0640"));
  action.files.push_back(text_file(folder + "/sums", sums_of(action), "0600"));
  action.script = ":\n";
  action.undo = fill(
      "if [ \"$(readlink @FOLDER@/current 2>/dev/null)\" != releases/@N@ ]; then\n"
      "  rm -f @FOLDER@/releases/@N@/*\nfi\n",
      spec, number);
  action.undo_title = "remove release " + std::to_string(number);
  return action;
}

Action switch_action(const ServerSpec& spec, int number) {
  Action action;
  action.title = "switch " + spec.unit() + " to release " + std::to_string(number);
  action.save = fill(kSaveSwitch, spec, number);
  action.script = process_functions(spec) + fill(kSwitch, spec, number);
  action.undo = process_functions(spec) + fill(kUndoSwitch, spec, number);
  action.undo_title = "switch " + spec.unit() + " back to what ran before";
  return action;
}

Action start_again_action(const ServerSpec& spec) {
  Action action;
  action.title = "start " + spec.unit();
  // It may run from files that are gone by now.
  action.script = process_functions(spec) + fill(
                                                "if systemctl -q is-active @UNIT@; then stop_server @UNIT@; fi\n"
                                                "systemctl reset-failed @UNIT@ 2>/dev/null || :\n"
                                                "systemctl --no-block start @UNIT@\n",
                                                spec, 0);
  action.undo = process_functions(spec) + fill("stop_server @UNIT@\n", spec, 0);
  action.undo_title = "stop " + spec.unit();
  return action;
}

Action enable_action(const ServerSpec& spec) {
  Action action;
  action.title = "have " + spec.unit() + " start with the machine";
  action.script = fill("systemctl enable -q @UNIT@\n", spec, 0);
  action.undo = fill("systemctl disable -q @UNIT@ 2>/dev/null || :\n", spec, 0);
  action.undo_title = "not any more";
  return action;
}

}  // namespace millwright

#include "steps/core/service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/core/run_parts.hpp"

namespace millwright {

namespace {

Signature make_signature() {
  Signature s;
  s.kind = "service";
  s.summary = "A systemd unit runs or not, now and at boot.";
  s.doc =
      "`started` and `stopped` change only what is not so; `restarted` and `reloaded` act every time. Starting waits "
      "until systemd says active, and a unit that fails comes back with the last lines of its log.\n\n"
      "Changed unit files are read again before anything is started (daemon-reload) without being asked for.\n\n"
      "Undo starts or stops, enables or disables again as it was before. An older configuration is brought back by the "
      "undo of the step that wrote it; a unit that ran before is restarted once that is done.";
  s.inputs = {
      {.name = "name",
       .need = Need::required,
       .doc = "The unit; without a suffix .service is meant.",
       .known_elsewhere_as = {"service", "unit"}},
      {.name = "state", .one_of = {"started", "stopped", "restarted", "reloaded"}, .doc = "Now. Default: as it is."},
      {.name = "enabled", .type = ValueType::boolean, .doc = "At boot. Default: as it is."},
      {.name = "daemon_reload",
       .type = ValueType::boolean,
       .default_value = true,
       .doc = "Have systemd read changed unit files again first."},
      {.name = "timeout", .type = ValueType::duration, .default_value = "90s", .doc = "For the unit to become active."},
      {.name = "may_drop_connection",
       .type = ValueType::boolean,
       .doc = "Starting, stopping or restarting it may cut the way to the node. Nothing else runs there meanwhile, "
              "success is a new login, and a timer on the node takes it back when nobody logs in within `timeout` and "
              "half "
              "a minute; after the same time once more also what the run had done there before. Default: true for ssh, "
              "network and firewall units."}};
  s.outputs = {{.name = "name", .doc = "The unit's own name, aliases resolved."},
               {.name = "state", .doc = "systemd's ActiveState: active, inactive, failed ..."},
               {.name = "sub_state", .doc = "systemd's SubState: running, exited, dead ..."},
               {.name = "enabled", .doc = "systemd's UnitFileState: enabled, disabled, static ..."}};
  s.positional = "name";
  s.example =
      "- uses: service\n"
      "  with: {name: nvidia-persistenced, state: started, enabled: true}\n";
  return s;
}

using Properties = std::map<std::string, std::string>;

std::string property(const Properties& properties, const std::string& name) {
  const auto it = properties.find(name);
  return it == properties.end() ? "" : it->second;
}

bool is_in(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string question_script(const std::string& unit) {
  return fmt::format(R"sh(u={}
if ! command -v systemctl >/dev/null 2>&1; then echo manager=none; exit 0; fi
if [ ! -d /run/systemd/system ]; then echo manager=asleep; exit 0; fi
systemctl show --no-pager -p Id,LoadState,LoadError,ActiveState,SubState,UnitFileState,NeedDaemonReload,Type -- "$u" || exit
systemctl show --no-pager -p RemainAfterExit,CanReload,Result -- "$u" || exit
if [ "$(systemctl show -p LoadState --value -- "$u")" = not-found ]; then
  systemctl list-unit-files --no-legend --no-pager --plain 2>/dev/null | while read -r name rest; do echo "unit=$name"; done
fi
)sh",
                     shell_quote(unit));
}

// Prints why a unit is not up, with its last lines, then fails.
constexpr std::string_view kStartFunctions = R"sh(mw_failed() {
  result=$(systemctl show -p Result --value -- "$u") || result=unknown
  echo "$u $1 (result: $result)" >&2
  if lines=$(journalctl -u "$u" -n 20 --no-pager -o cat 2>/dev/null) && [ -n "$lines" ]; then
    printf 'its last lines:\n%s\n' "$lines" >&2
  fi
  exit 1
}
mw_wait_active() {
  n=0
  while :; do
    state=$(systemctl show -p ActiveState --value -- "$u")
    case $state in
      active | reloading) return 0 ;;
      failed) mw_failed "failed" ;;
      inactive) mw_failed "ended again at once" ;;
    esac
    [ "$n" -lt "$limit" ] || mw_failed "is still $state after $limit s"
    n=$((n + 1))
    sleep 1
  done
}
)sh";

// The state of the unit before the action, for undo.
std::string save_script(const std::string& unit) {
  return fmt::format(
      "set -eu\numask 077\n"
      "systemctl show -p ActiveState,UnitFileState -- {} >\"$MW_SAVE/unit.new\"\n"
      "mv -f \"$MW_SAVE/unit.new\" \"$MW_SAVE/unit\"\n",
      shell_quote(unit));
}

std::string undo_script(const std::string& unit, std::string_view body) {
  return fmt::format(R"sh(set -eu
u={}
[ -f "$MW_SAVE/unit" ] || exit 0
[ ! -e "$MW_SAVE/undone" ] || exit 0
before() {{ sed -n "s/^$1=//p" "$MW_SAVE/unit"; }}
case $(systemctl show -p LoadState --value -- "$u") in
  not-found) exit 0 ;;
  masked)
    if [ -z "${{MW_FORCE:-}}" ]; then
      echo "$u was masked by someone else since, so it stays as it is" >&2
      exit 65
    fi
    systemctl unmask --quiet -- "$u"
    ;;
esac
)sh",
                     shell_quote(unit))
      .append(body)
      .append(": >\"$MW_SAVE/undone\"\n");
}

// What the unit reads is put back after this, by the undo of the steps before it: the engine runs after.sh then.
constexpr std::string_view kUndoActive = R"sh(printf '%s\n' "$u" >"$MW_SAVE/again"
case $(before ActiveState) in
  active | reloading | activating)
    cat >"$MW_SAVE/after.sh" <<'AFTER'
systemctl daemon-reload
systemctl restart -- "$(cat "$MW_SAVE/again")"
AFTER
    systemctl start -- "$u"
    ;;
  *)
    systemctl stop -- "$u"
    systemctl reset-failed -- "$u" 2>/dev/null || true
    echo 'systemctl daemon-reload' >"$MW_SAVE/after.sh"
    ;;
esac
)sh";

constexpr std::string_view kUndoEnabled = R"sh(case $(before UnitFileState) in
  enabled) systemctl enable --quiet -- "$u" ;;
  enabled-runtime) systemctl enable --runtime --quiet -- "$u" ;;
  disabled) systemctl disable --quiet -- "$u" ;;
esac
)sh";

// Units that the way to a node goes through, as Debian, Ubuntu and Proxmox name them.
bool carries_the_connection(const std::string& unit) {
  return is_in(unit.substr(0, unit.rfind('.')),
               {"ssh", "sshd", "networking", "systemd-networkd", "NetworkManager", "netplan", "dhcpcd",
                "wpa_supplicant", "openvswitch-switch", "nftables", "netfilter-persistent", "firewalld", "ufw",
                "pve-firewall", "wg-quick@wg0", "tailscaled"});
}

class Planner {
 public:
  Planner(const Inputs& inputs, Properties properties) : inputs_(inputs), unit_(std::move(properties)) {
    name_ = property(unit_, "Id");
    may_drop_ =
        inputs.has("may_drop_connection") ? inputs.boolean("may_drop_connection") : carries_the_connection(name_);
    active_ = property(unit_, "ActiveState");
    change_.outputs = {{"name", name_},
                       {"state", active_},
                       {"sub_state", property(unit_, "SubState")},
                       {"enabled", property(unit_, "UnitFileState")}};
  }

  Result<Change> plan() {
    if (auto usable = check_loaded(); !usable) return fail(usable.error());
    if (inputs_.has("enabled")) {
      if (auto done = plan_enabled(inputs_.boolean("enabled")); !done) return fail(done.error());
    }
    if (inputs_.has("state")) {
      if (auto done = plan_state(inputs_.string("state")); !done) return fail(done.error());
    }
    if (inputs_.boolean("daemon_reload") && property(unit_, "NeedDaemonReload") == "yes") reload_unit_files();
    change_.summary = summary_.empty() ? fmt::format("{} is {}", name_, active_) : join(summary_, ", ");
    return std::move(change_);
  }

 private:
  Failure refuse(std::string message, std::string hint) const {
    return fail(make_error(ErrorKind::refused, std::move(message)).with_hint(std::move(hint)));
  }

  bool wants_running() const { return is_in(inputs_.string_or("state", ""), {"started", "restarted", "reloaded"}); }

  Result<void> check_loaded() const {
    const std::string load = property(unit_, "LoadState");
    const bool wants_more = wants_running() || (inputs_.has("enabled") && inputs_.boolean("enabled"));
    if (load == "masked" && wants_more) {
      return refuse(name_ + " is masked",
                    "somebody forbade it on purpose; systemctl unmask " + name_ + " allows it again");
    }
    if (load != "loaded" && load != "masked") {
      return refuse(fmt::format("the unit file of {} cannot be loaded: {}", name_, property(unit_, "LoadError")),
                    "systemd-analyze verify " + name_ + " says more");
    }
    return {};
  }

  Action action(std::string title, std::string script, std::string_view undo, std::string undo_title) const {
    Action out;
    out.title = std::move(title);
    out.script = fmt::format("u={}\n", shell_quote(name_)) + std::move(script);
    out.save = save_script(name_);
    out.undo = undo_script(name_, undo);
    out.undo_title = std::move(undo_title);
    out.deadline = inputs_.duration("timeout") + std::chrono::minutes(5);  // systemd's own stop timeout is 90 s
    return out;
  }

  // Of the actions on a unit, those that change whether it runs.
  Action running_action(std::string title, std::string script, std::string undo_title) const {
    Action out = action(std::move(title), std::move(script), kUndoActive, std::move(undo_title));
    if (!may_drop_) return out;
    out.marks.may_drop_connection = true;
    out.deadline = inputs_.duration("timeout") + std::chrono::seconds(30);
    return out;
  }

  Result<void> plan_enabled(bool wanted) {
    const std::string state = property(unit_, "UnitFileState");
    if (wanted) {
      if (is_in(state, {"enabled", "enabled-runtime", "alias", "indirect", "generated"})) return {};
      if (is_in(state, {"static", "transient"})) {
        return refuse(fmt::format("{} cannot be enabled: its unit file has no [Install] section", name_),
                      "another unit starts it, or it is meant to be started by hand");
      }
      change_.actions.push_back(
          action("enable " + name_, "systemctl enable --quiet -- \"$u\"\n", kUndoEnabled, "disable " + name_));
    } else {
      if (!is_in(state, {"enabled", "enabled-runtime", "generated"})) return {};
      if (state == "generated") {
        return refuse(fmt::format("{} cannot be disabled: it is generated from another file", name_),
                      "look at " + name_ + " with systemctl cat, and change where it comes from");
      }
      change_.actions.push_back(action("disable " + name_, "systemctl disable --quiet -- \"$u\"\n", kUndoEnabled,
                                       "enable " + name_ + " again"));
    }
    summary_.push_back(fmt::format("{} {} -> {}", name_, state, wanted ? "enabled" : "disabled"));
    change_.diff += fmt::format("- {} {}\n+ {} {}\n", name_, state, name_, wanted ? "enabled" : "disabled");
    return {};
  }

  // Such a unit is meant to be inactive again when it has done its work.
  bool ends_by_itself() const {
    return property(unit_, "Type") == "oneshot" && property(unit_, "RemainAfterExit") != "yes";
  }

  std::string start_script(std::string_view verb) const {
    const auto limit = std::chrono::duration_cast<Seconds>(inputs_.duration("timeout")).count();
    return fmt::format("limit={}\n{}systemctl {} -- \"$u\" || mw_failed \"could not be started\"\n{}", limit,
                       kStartFunctions, verb, ends_by_itself() ? "" : "mw_wait_active\n");
  }

  void add_start(std::string_view verb, std::string_view done) {
    const bool was_up = is_in(active_, {"active", "reloading", "activating"});
    change_.actions.push_back(
        running_action(fmt::format("{} {}", verb, name_), start_script(verb),
                       was_up ? fmt::format("restart {} once what it reads is put back", name_) : "stop " + name_));
    summary_.push_back(fmt::format("{} {}", name_, done));
    change_.diff += fmt::format("- {} {}\n+ {} active\n", name_, active_, name_);
  }

  Result<void> plan_state(const std::string& wanted) {
    const bool up = is_in(active_, {"active", "reloading"});
    if (wanted == "stopped") {
      if (is_in(active_, {"inactive", "failed"})) return {};
      change_.actions.push_back(
          running_action("stop " + name_, "systemctl stop -- \"$u\"\n", "start " + name_ + " again"));
      summary_.push_back(name_ + " stopped");
      change_.diff += fmt::format("- {} {}\n+ {} inactive\n", name_, active_, name_);
      return {};
    }
    if (wanted == "started") {
      if (up) return {};
      if (ends_by_itself()) change_.verification = Verification::exit_status;
      add_start("start", "started");
      return {};
    }
    change_.verification = Verification::exit_status;
    if (wanted == "reloaded" && up) {
      if (property(unit_, "CanReload") == "no") {
        return refuse(name_ + " cannot reload its configuration while it runs", "use state: restarted");
      }
      add_start("reload", "reloaded");
    } else {
      add_start(up ? "restart" : "start", up ? "restarted" : "started");
    }
    return {};
  }

  void reload_unit_files() {
    if (change_.actions.empty()) {
      if (active_ != "active") return;  // nobody waits for it: systemd reads it when it starts the unit
      // Taken back once the files are: the engine runs after.sh then.
      change_.actions.push_back(action("read changed unit files again", "systemctl daemon-reload\n",
                                       "echo 'systemctl daemon-reload' >\"$MW_SAVE/after.sh\"\n",
                                       "read unit files again"));
      change_.actions.back().marks.refreshes = true;
      summary_.push_back("unit files read again");
      return;
    }
    Action& first = change_.actions.front();
    first.title = "read changed unit files again, " + first.title;
    first.script = "systemctl daemon-reload\n" + first.script;
  }

  const Inputs& inputs_;
  Properties unit_;
  std::string name_;
  std::string active_;
  bool may_drop_ = false;
  Change change_;
  std::vector<std::string> summary_;
};

Failure unknown_unit(const std::string& name, const std::vector<std::string>& units) {
  Error error = make_error(ErrorKind::refused, fmt::format("there is no unit {}", name));
  const bool suffixed = name.find('.') != std::string::npos;
  // Without the ending, which all of them have: ".service" alone would make rescue.service near to nosuch.
  std::vector<std::string> names;
  for (const std::string& unit : units) names.push_back(suffixed ? unit : unit.substr(0, unit.rfind('.')));
  const auto near = nearest(name, names);
  const auto at = near ? std::find(names.begin(), names.end(), *near) - names.begin() : 0;
  error.hint = near ? fmt::format("did you mean {}?", units[static_cast<std::size_t>(at)])
                    : "is its package installed on this node? systemctl list-unit-files shows what there is";
  return fail(std::move(error));
}

}  // namespace

const Signature& ServiceStep::signature() const {
  static const Signature signature = make_signature();
  return signature;
}

std::vector<Error> ServiceStep::check(const Inputs& inputs) const {
  std::vector<Error> errors;
  if (!inputs.has("name")) return errors;
  const std::string name = inputs.string("name");
  if (name.empty() || starts_with(name, "-") || name.find_first_of(" \t\n/*?[") != std::string::npos) {
    errors.push_back(core::input_error("name", fmt::format("'{}' cannot be the name of one unit", name)));
  }
  return errors;
}

std::vector<Question> ServiceStep::ask(const Inputs& inputs) const {
  return {{.key = "unit", .script = question_script(inputs.string("name"))}};
}

Result<Change> ServiceStep::plan(const Inputs& inputs, const Answers& answers) const {
  const Answer& answer = answers.at("unit");
  if (!answer.ok()) {
    Error error = make_error(ErrorKind::refused, "systemd does not answer");
    error.detail = answer.err;
    return fail(std::move(error));
  }
  Properties properties;
  std::vector<std::string> units;
  for (const std::string& line : split_lines(answer.out)) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    if (starts_with(line, "unit=")) {
      units.push_back(line.substr(5));
    } else {
      properties[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
  if (const std::string manager = property(properties, "manager"); !manager.empty()) {
    return fail(
        make_error(ErrorKind::refused,
                   manager == "none" ? "this node has no systemd" : "systemd does not run on this node")
            .with_hint("only systemd's units are known to `service`; use `command` for another service manager"));
  }
  if (property(properties, "LoadState") == "not-found") return unknown_unit(inputs.string("name"), units);
  return Planner(inputs, std::move(properties)).plan();
}

}  // namespace millwright

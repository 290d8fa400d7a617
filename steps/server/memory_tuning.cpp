#include "steps/server/memory_tuning.hpp"

#include <algorithm>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "steps/server/launch_command.hpp"

namespace millwright {

namespace {

constexpr const char* kLearned = "/var/lib/millwright/learned";

// "gpu" when there is one that an engine could use; the host's memory and its NUMA nodes; then the least limit of a
// control group around the system (a container's), less what other processes hold there; nothing when there is none.
// Files of version 2, then of version 1, whose "no limit" is a number beyond all memory. Source: the kernel's
// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
constexpr const char* kOuterLimit = R"sh(for d in /dev/nvidiactl /dev/kfd /dev/dri/renderD*; do
  if [ -e "$d" ]; then echo gpu; break; fi
done
awk '$1 == "MemTotal:" { printf "total %.0f\n", $2 * 1024 } $1 == "MemAvailable:" { printf "free %.0f\n", $2 * 1024 }' /proc/meminfo
echo "nodes $(ls -d /sys/devices/system/node/node[0-9]* 2>/dev/null | wc -l)"
all=$(awk '$1 == "MemTotal:" { print $2 * 1024 }' /proc/meminfo)
for d in /sys/fs/cgroup /sys/fs/cgroup/system.slice /sys/fs/cgroup/memory /sys/fs/cgroup/memory/system.slice; do
  limit=$(cat "$d/memory.max" 2>/dev/null || cat "$d/memory.limit_in_bytes" 2>/dev/null) || continue
  held=$(sed -n -e 's/^anon //p' -e 's/^total_rss //p' "$d/memory.stat" 2>/dev/null | head -n 1)
  [ "$limit" = max ] || echo "$limit ${held:-0}"
done | awk -v all="$all" '$1 <= all && (!least || $1 - $2 < least) { least = $1 - $2 } END { if (least) printf "%.0f\n", least }'
)sh";

Value memory_max_of(const ServerSpec& spec) { return spec.memory_max ? Value(*spec.memory_max) : Value(); }

Value to_json(const std::vector<planner::FlagChoice>& flags) {
  Value out = Value::array();
  for (const planner::FlagChoice& flag : flags) {
    out.push_back({{"name", flag.name}, {"value", flag.value}, {"reason", flag.reason}});
  }
  return out;
}

std::vector<planner::FlagChoice> from_json(const Value& flags) {
  std::vector<planner::FlagChoice> out;
  if (!flags.is_array()) return out;
  for (const Value& flag : flags) {
    if (!flag.is_object() || flag.value("name", "").empty()) continue;
    out.push_back({flag.value("name", ""), flag.value("value", ""), flag.value("reason", "")});
  }
  return out;
}

// A version or a model that the planner has no data of is started as it is; what else goes wrong is an error.
bool planner_knows_nothing(const Error& error) {
  return error.kind == ErrorKind::usage || error.kind == ErrorKind::invalid || error.kind == ErrorKind::refused;
}

}  // namespace

std::vector<std::string> MemoryTuning::words() const { return command_words(spec_, profile_); }

std::string MemoryTuning::learned_file() const {
  const std::string model = spec_.model_sha256.empty() ? sha256_hex(spec_.model) : spec_.model_sha256;
  return std::string(kLearned) + "/" + spec_.engine + "-" + spec_.version + "-" + model.substr(0, 16) + ".json";
}

void MemoryTuning::apply(const MemoryDecision& decision) {
  if (decision.changes.empty()) return;
  // Changes come from data of this engine and version only; a version that is none has no such data.
  const auto version = Version::parse(spec_.version);
  if (!version) return;
  const auto table = planner::FlagTable::load(knowledge_, spec_.engine, *version);
  if (!table) return;
  spec_.extra_flags = apply_changes(spec_.extra_flags, decision.changes, *table);
  for (const planner::FlagChoice& change : decision.changes) {
    const auto same = std::find_if(flags_.begin(), flags_.end(), [&](const planner::FlagChoice& flag) {
      return table->find(flag.name).name == table->find(change.name).name;
    });
    // In the order of the command line, so that a second run builds the same one.
    if (same != flags_.end()) flags_.erase(same);
    flags_.push_back(change);
  }
}

Result<void> MemoryTuning::begin(const std::string& asked, const DeployedServer& deployed) {
  asked_ = asked;
  user_words_ = words();
  const Value known = deployed.record.value("memory", Value::object());
  if (known.is_object() && known.value("asked", "") == asked) {
    apply({from_json(known.value("flags", Value::array())), "", {}});
    return {};
  }
  return plan();
}

Result<bool> MemoryTuning::recall() {
  const auto version = Version::parse(spec_.version);
  if (!version) return false;
  const auto table = planner::FlagTable::load(knowledge_, spec_.engine, *version);
  if (!table) return false;
  NodeCommand command;
  // Another version's flags are a better start than those that are known to fail; the log corrects what they lack.
  const std::string file = learned_file();
  const std::string model = file.substr(file.rfind('-'));
  command.script = "cat " + shell_quote(file) + " 2>/dev/null || {\n  f=$(ls -t " + kLearned + "/" +
                   shell_quote(spec_.engine) + "-*" + model +
                   " 2>/dev/null | head -n 1)\n  [ -z \"$f\" ] || cat \"$f\"\n}\n";
  auto answer = context_.node().run(command);
  if (!answer) return fail(answer.error());
  const Value learned = Value::parse(answer->out, nullptr, false);
  // What fitted into one limit of the host's memory says nothing of another.
  if (!learned.is_object() || learned.value("memory_max", Value()) != memory_max_of(spec_)) return false;
  const Value flags = learned.value("flags", Value::array());
  const Value instead = learned.value("instead_of", Value::object());
  std::vector<LearnedFlag> known;
  for (planner::FlagChoice& flag : from_json(flags)) {
    const std::string before = instead.value(flag.name, "");
    known.push_back({std::move(flag), before});
  }
  const std::vector<planner::FlagChoice> wanted = still_wanted(known, user_words_, *table);
  if (wanted.empty()) return false;
  apply({wanted, "", {}});
  context_.progress("memory: " + planner::words_of(flags_, " ") + ", learned from an earlier start here");
  return true;
}

Result<void> MemoryTuning::plan() {
  // An engine that fits itself can have learned nothing without a limit.
  if (!profile_.fits_memory_itself || spec_.memory_max) {
    auto recalled = recall();
    if (!recalled) return fail(recalled.error());
    if (*recalled) return {};
  }
  if (profile_.fits_memory_itself) return bound_prompts();
  if (auto made = need_planner(); !made) {
    if (!planner_knows_nothing(made.error())) return fail(made.error());
    context_.progress("memory is not planned: " + made.error().message);
    return {};
  }
  auto decision = planner_->before(words());
  if (!decision) return fail(decision.error());
  if (!decision->changes.empty()) {
    apply(*decision);
    context_.progress("memory: " + decision->sentence);
  }
  return {};
}

Result<void> MemoryTuning::need_planner() {
  if (planner_) return {};
  auto made = MemoryPlanner::make(knowledge_, context_, spec_);
  if (!made) return fail(made.error());
  planner_ = std::move(*made);
  return {};
}

Result<MemoryTuning::HostLook> MemoryTuning::look_at_host() {
  NodeCommand command;
  command.script = kOuterLimit;
  auto answer = context_.node().run(command);
  if (!answer) return fail(answer.error());
  HostLook out;
  for (const std::string& line : split_lines(answer->out)) {
    if (line == "gpu") out.gpu = true;
    const std::size_t space = line.find(' ');
    const double number = space == std::string::npos ? 0 : std::atof(line.c_str() + space);
    if (starts_with(line, "total ")) out.memory.total_gib = number / planner::kGiB;
    if (starts_with(line, "free ")) out.memory.free_gib = number / planner::kGiB;
    if (starts_with(line, "nodes ")) out.memory.nodes = std::max(1, static_cast<int>(number));
    if (const double room = std::atof(line.c_str()); room > 0)
      out.around = HostLimit{static_cast<std::uint64_t>(room), "the container's memory"};
  }
  return out;
}

std::optional<HostLimit> MemoryTuning::limit_of(const MemoryKill& kill, const HostLook& host) const {
  std::optional<HostLimit> own, all;
  if (spec_.memory_max) own = HostLimit{*spec_.memory_max, "memory_max"};
  if (host.memory.free_gib > 0)
    all = HostLimit{static_cast<std::uint64_t>(host.memory.free_gib * planner::kGiB), "the host's free memory"};
  switch (kill.cause) {
    case MemoryKill::Cause::own_limit:
      if (own) return own;
      break;
    case MemoryKill::Cause::host:
      return all;
    case MemoryKill::Cause::outer_limit:
      return host.around;
    default:
      break;
  }
  // Nothing says whose limit it was, be it only that not even a log was written: the smallest was met first.
  if (own && host.around) return own->bytes < host.around->bytes ? own : host.around;
  return own ? own : host.around;
}

Result<void> MemoryTuning::bound_prompts() {
  auto host = look_at_host();
  if (!host) return fail(host.error());
  std::optional<HostLimit> limit = host->around;
  if (spec_.memory_max && (!limit || *spec_.memory_max < limit->bytes))
    limit = HostLimit{*spec_.memory_max, "memory_max"};
  // With weights on a GPU it is not known what the host has to hold.
  if (!limit || (host->gpu && spec_.device != "cpu")) return {};
  if (auto made = need_planner(); !made) {
    // As for the others: a version or a model that the planner has no data of is started as it is.
    return planner_knows_nothing(made.error()) ? Result<void>() : fail(made.error());
  }
  bound_prompts(*limit);
  return {};
}

void MemoryTuning::bound_prompts(const HostLimit& limit) {
  const auto launcher = launcher_.empty() ? nullptr : launcher_flags(profile_, spec_.version, launcher_);
  const auto flag = planner_->bounded_prompt_cache(words(), user_words_, limit, launcher.get());
  if (!flag) return;
  apply({{*flag}, "", {}});
  context_.progress("memory: --" + flag->name + " " + flag->value + " (" + flag->reason + ")");
}

Result<bool> MemoryTuning::again(const Error& failure, const std::string& log, const MemoryKill& kill) {
  const bool killed = failure.symptom_class == "oom_killed";
  const bool shared_out = MemoryPlanner::flags_share_it_out(failure.symptom_class) && !profile_.fits_memory_itself;
  if (!killed && !shared_out) return false;
  if (static_cast<int>(attempts_.size()) + 1 >= kAttempts) return false;
  std::optional<HostLimit> limit;
  HostLook host;
  if (killed) {
    auto looked = look_at_host();
    if (!looked) return fail(looked.error());
    host = *looked;
    limit = limit_of(kill, host);
    if (!limit) {
      context_.progress("memory is not planned anew: nothing says at which limit the kernel ended it");
      return false;
    }
  }
  if (auto made = need_planner(); !made) {
    context_.progress("memory is not planned: " + made.error().message);
    return false;
  }
  const auto launcher = launcher_.empty() ? nullptr : launcher_flags(profile_, spec_.version, launcher_);
  planner_->know_host(host.memory, spec_.env);
  auto decision = limit ? planner_->after_kill(words(), *limit, launcher.get()) : planner_->after(words(), log);
  if (!decision) {
    Error error = wrap(decision.error(), failure.message);
    if (error.symptom_class.empty()) error.symptom_class = failure.symptom_class;
    return fail(std::move(error));
  }
  apply(*decision);
  if (limit && profile_.fits_memory_itself) bound_prompts(*limit);
  learned_ = true;
  attempts_.push_back(decision->sentence);
  const std::string number = std::to_string(attempts_.size());
  context_.keep("server-" + spec_.name + "-memory-" + number + ".txt",
                failure.message + "\n" + join(decision->arithmetic, "\n") + "\nnext: " + decision->sentence + "\n");
  context_.remember("memory_attempts", Value(attempts_));
  context_.progress("planned anew from its log: " + decision->sentence);
  return true;
}

Value MemoryTuning::record() const { return {{"asked", asked_}, {"flags", to_json(flags_)}}; }

Result<void> MemoryTuning::keep_learned() {
  if (!learned_) return {};
  Action action;
  const std::string file = shell_quote(learned_file());
  action.title = "remember the memory flags of " + spec_.engine + " " + spec_.version + " for this model";
  action.save = "[ ! -e " + file + " ] || cp -p " + file + " \"$MW_SAVE/learned\"\n";
  Value instead_of = Value::object();
  if (const auto version = Version::parse(spec_.version)) {
    if (const auto table = planner::FlagTable::load(knowledge_, spec_.engine, *version)) {
      for (const planner::FlagChoice& flag : flags_) instead_of[flag.name] = value_in(user_words_, flag.name, *table);
    }
  }
  FilePlacement placed;
  placed.path = learned_file();
  placed.content = std::make_shared<const std::string>(Value{{"flags", to_json(flags_)},
                                                             {"instead_of", instead_of},
                                                             {"memory_max", memory_max_of(spec_)},
                                                             {"from_run", context_.run_id()},
                                                             {"attempts", attempts_}}
                                                           .dump(2) +
                                                       "\n");
  placed.mode = "0640";
  placed.owner = "root";
  placed.group = "root";
  action.files.push_back(std::move(placed));
  action.script = ":\n";
  action.undo = "if [ -e \"$MW_SAVE/learned\" ]; then cp -p \"$MW_SAVE/learned\" " + file + "; else rm -f " + file +
                "; rmdir " + kLearned + " 2>/dev/null || :; fi\n";
  action.undo_title = "forget them";
  action.marks.guard_self = true;
  Action folder;
  folder.title = std::string("make ") + kLearned;
  folder.script = std::string("mkdir -p -m 0750 ") + kLearned + "\n";
  folder.undo = std::string("rmdir ") + kLearned + " 2>/dev/null || :\n";
  folder.undo_title = "remove it when empty";
  folder.marks.guard_self = true;
  for (const Action& each : {folder, action}) {
    if (auto done = context_.act(each); !done) return fail(done.error());
  }
  return {};
}

}  // namespace millwright

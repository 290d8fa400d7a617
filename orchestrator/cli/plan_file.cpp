#include "orchestrator/cli/plan_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/base/read_file.hpp"
#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/cli/engine_run.hpp"
#include "orchestrator/engine/parameters.hpp"
#include "orchestrator/engine/saved_plan.hpp"
#include "orchestrator/journal/process_identity.hpp"

namespace millwright {
namespace {

class Collector final : public EventSink {
 public:
  void on_event(const Event& event) override {
    const Lock guard(mutex_);
    events_.push_back(event);
  }
  std::vector<Event> take() {
    const Lock guard(mutex_);
    return std::move(events_);
  }

 private:
  Mutex mutex_;
  std::vector<Event> events_ MW_GUARDED_BY(mutex_);
};

// Every script of every step on every host: far more than a playbook, and never as much as this.
constexpr std::size_t kLargestPlan = std::size_t{1} << 30;

// To a private file beside it first: never half a plan, and never one that others may read.
Result<void> write_private(const std::string& path, const std::string& text) {
  const auto problem = [&](const char* what) {
    return fail(make_error(ErrorKind::io, fmt::format("{} {}: {}", what, path, std::strerror(errno)))
                    .with_hint("is the folder there, and may you write to it?"));
  };
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return problem("writing");
  std::size_t written = 0;
  bool good = true;
  while (good && written < text.size()) {
    const ssize_t some = ::write(file, text.data() + written, text.size() - written);
    good = some > 0;
    if (good) written += static_cast<std::size_t>(some);
  }
  good = good && ::fsync(file) == 0;
  ::close(file);
  if (good && ::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const Failure failed = problem("writing");
  ::unlink(temporary.c_str());
  return failed;
}

// Inventories are named so that they are found from another folder too; lists of hosts stay as they are.
std::vector<std::string> absolute(const std::vector<std::string>& sources) {
  std::vector<std::string> out;
  for (const std::string& source : sources) {
    std::error_code failed;
    out.push_back(std::filesystem::exists(source, failed) ? std::filesystem::absolute(source, failed).string()
                                                          : source);
  }
  return out;
}

bool holds_secret(const std::string& text) { return redactor().redact(text) != text; }

// What is today's: waiting, whether to roll back, and the secrets, which a plan does not hold.
Result<RunOptions> todays_options(const Session& session, const PlayOptions& options, const SavedPlan& plan) {
  RunOptions today;
  const auto wait = parse_duration(options.lock_wait);
  if (!wait) return fail(wrap(wait.error(), "reading --lock-wait"));
  today.lock_wait = *wait;
  today.no_rollback = options.no_rollback;
  today.why = "apply " + options.playbook;
  const auto extra = extra_variables(options.extra);
  if (!extra) return fail(extra.error().front());
  today.refreshed_inputs = *extra;
  InventoryOptions sources = options.inventory;
  if (sources.sources.empty()) sources.sources = plan.inventory;
  today.inventory = sources.sources;
  if (plan.parameters.dump().find("[secret]") == std::string::npos || sources.sources.empty()) return today;
  const auto inventory = load_inventory(session, sources);
  if (!inventory) return fail(wrap(inventory.error().front(), "looking up the secrets of the plan's hosts"));
  for (const std::string& name : inventory->hosts()) {
    auto host = play_host(*inventory, name);
    if (host) today.refreshed_hosts.push_back(std::move(*host));
  }
  return today;
}

Result<void> only_a_plans_options(const PlayOptions& options) {
  const bool chosen = !options.tags.empty() || !options.skip_tags.empty() || !options.start_at.empty() ||
                      !options.inventory.limit.empty() || !options.out.empty();
  if (!chosen) return {};
  return fail(
      make_error(ErrorKind::usage, options.playbook + " is a saved plan: what of it is done cannot be chosen now")
          .with_hint("leave out -l, -t, --skip-tags, --start-at and --out, or plan again with them"));
}

int refuse_stale(const Session& session, const std::string& path, const std::vector<PlanDifference>& differences) {
  if (session.common.json) {
    Value stale = Value::array();
    for (const PlanDifference& one : differences) {
      Value entry = {{"host", one.host}, {"step", one.step}, {"question", one.question}, {"text", one.text}};
      if (one.item) entry["item"] = *one.item;
      stale.push_back(std::move(entry));
    }
    session.console.out(Value{{"schema_version", kPlanSchemaVersion}, {"stale", std::move(stale)}}.dump(
                            -1, ' ', false, Value::error_handler_t::replace) +
                        "\n");
  }
  Error error = make_error(ErrorKind::stale, path + " is stale; nothing was touched");
  for (const PlanDifference& one : differences) error.detail += one.text + "\n";
  error.hint = "plan again, look at it, and apply that";
  session.fail_with(error);
  return static_cast<int>(ExitCode::stale);
}

}  // namespace

bool names_plan_file(const std::string& path) {
  const auto text = read_file(path, kLargestPlan);
  return text && is_saved_plan(*text);
}

int write_plan_file(const Session& session, const StepKinds& kinds, const PlayOptions& options, const Play& play) {
  Collector collected;
  const int code = run_engine(session, kinds, Diffs::yes, Shown::yes, collected, [&](Engine& engine) {
    return engine.run(play.playbook, play.text, play.inputs, play.hosts, play.options);
  });
  if (code != kDone) {
    session.console.err(fmt::format("{} was not written: not every host could be planned\n", options.out));
    return code;
  }
  SavedPlan plan;
  plan.made = session.wiring.clock->now();
  plan.by = describe_this_process();
  plan.playbook_path = play.playbook.path;
  plan.playbook_text = play.text;
  plan.files = play.playbook.files;
  plan.parameters = parameters_value({play.inputs, play.hosts, play.options});
  plan.inventory = absolute(inventory_sources(options.inventory));
  plan.units = planned_units(collected.take());
  const std::string text = saved_plan_json(plan).dump(1, ' ', false, Value::error_handler_t::replace) + "\n";
  if (holds_secret(text)) {
    return session.fail_with(
        make_error(ErrorKind::usage, options.out + " was not written: the playbook's own text holds a secret's value")
            .with_hint("write the secret as a reference, such as !secret env:NAME"));
  }
  if (const auto written = write_private(options.out, text); !written) return session.fail_with(written.error());
  if (!session.common.json) session.console.out(fmt::format("do it  millwright apply {}\n", options.out));
  return kDone;
}

int apply_plan_file(const Session& session, const StepKinds& kinds, const PlayOptions& options) {
  const std::string& path = options.playbook;
  if (const auto fits = only_a_plans_options(options); !fits) return session.refuse(fits.error());
  const auto text = read_file(path, kLargestPlan);
  if (!text) return session.refuse(text.error());
  const auto plan = read_saved_plan(*text, path);
  if (!plan) {
    session.refuse(plan.error());
    return static_cast<int>(plan.error().kind == ErrorKind::stale ? ExitCode::stale : ExitCode::usage);
  }
  ParseOptions as_planned;
  as_planned.files = plan->files;
  const auto playbook = parse_playbook(plan->playbook_text, plan->playbook_path, kinds.registry, as_planned);
  if (!playbook) return session.refuse(playbook.error());
  const auto today = todays_options(session, options, *plan);
  if (!today) return session.refuse(today.error());
  auto parameters = parameters_of(plan->parameters, *today);
  if (!parameters) return session.refuse(parameters.error());
  if (const auto known = inputs_known(parameters->inputs); !known) return session.refuse(known.error());
  const auto run = [&](Mode mode) {
    return [&, mode](Engine& engine) {
      parameters->options.mode = mode;
      return engine.run(*playbook, plan->playbook_text, parameters->inputs, parameters->hosts, parameters->options);
    };
  };
  Collector collected;
  const int asked = run_engine(session, kinds, Diffs::no, Shown::no, collected, run(Mode::plan));
  const std::vector<Event> events = collected.take();
  const auto differences = plan_differences(plan->units, planned_units(events));
  if (asked != kDone) {
    for (const Event& event : events) {
      if (!event.data.contains("error")) continue;
      session.console.err(fmt::format("{}: {}\n", event.host, event.data["error"].value("message", std::string())));
    }
    session.console.err("whether the plan still holds could not be found out; nothing was touched\n");
    return asked;
  }
  if (!differences.empty()) return refuse_stale(session, path, differences);
  if (options.check) {
    if (!session.common.json) session.console.out("the plan holds: every answer is what it was\n");
    return kDone;
  }
  parameters->options.approved = std::make_shared<const std::vector<PlannedUnit>>(plan->units);
  return run_engine(session, kinds, options.diff ? Diffs::yes : Diffs::no, run(Mode::apply));
}

}  // namespace millwright

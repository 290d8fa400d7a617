#include "steps/server/server_step.hpp"

#include <cmath>

#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "steps/server/memory_tuning.hpp"
#include "steps/server/register.hpp"
#include "steps/server/release.hpp"
#include "steps/server/start_watch.hpp"

namespace millwright {

namespace {

// By the server's user: a byte of the file, or of what a folder cannot do without.
constexpr const char* kReadModel = R"sh(if [ -d "$1" ]; then
  head -c 1 "$1/config.json" >/dev/null
  for file in "$1"/*.safetensors; do [ ! -e "$file" ] || head -c 1 "$file" >/dev/null; done
else head -c 1 "$1" >/dev/null; fi)sh";

// One server step on one node, in the order in which things happen.
class Deployment {
 public:
  // `planner_data`: knowledge with the planner's folder; nullptr: memory flags stay as they are.
  Deployment(StepContext& context, const EngineProfile& profile, ServerSpec spec, InstallJob job,
             const Knowledge* planner_data = nullptr)
      : context_(context), profile_(profile), spec_(std::move(spec)), job_(std::move(job)) {
    if (planner_data != nullptr && spec_.memory_auto)
      memory_.emplace(*planner_data, context_, profile_, spec_, job_.launcher);
  }

  Result<StepOutcome> run() {
    if (spec_.release) {
      if (auto taken = take_release(*spec_.release); !taken) return fail(taken.error());
    }
    if (auto done = look(); !done) return fail(done.error());
    remember();
    return spec_.release ? run_release(*spec_.release) : run_wanted();
  }

 private:
  Result<StepOutcome> run_wanted() {
    if (spec_.device == "auto" && !profile_.finds_device_itself) spec_.device = deployed_.gpus_there ? "cuda" : "cpu";
    build_release();
    if (memory_) {
      if (auto planned = memory_->begin(release_.digest, deployed_); !planned) return fail(planned.error());
      build_release();
    }
    const bool same = deployed_.current && deployed_.digest == release_.digest && deployed_.files_unchanged;
    if (same && deployed_.active == "active" && deployed_.dies_again_and_again) return fail(loop());
    if (same && deployed_.active == "active" && deployed_.environment_damage.empty()) return settle_running();
    if (auto free = port_is_free(); !free) return fail(free.error());
    if (auto installed = install(); !installed) return fail(installed.error());
    return start(same);
  }

  void build_release() {
    const std::string identity = find_installer(source_text(job_.source, "method"))->identity(job_);
    release_ = make_release(spec_, profile_, identity, context_.run_id());
    if (memory_) release_.record["memory"] = memory_->record();
  }

  // `in_place`: the release is there as wanted, and only does not run. A start that fails for want of memory is planned
  // anew, each try a release of its own.
  Result<StepOutcome> start(bool in_place) {
    while (true) {
      auto cursor = journal_cursor(context_.node());
      if (!cursor) return fail(cursor.error());
      auto changed = in_place ? start_again() : switch_over();
      if (!changed) return fail(changed.error());
      auto outcome = watch(*cursor, StepState::changed);
      if (!memory_) return outcome;
      if (outcome) {
        if (auto kept = memory_->keep_learned(); !kept) return fail(kept.error());
        return outcome;
      }
      auto again = memory_->again(outcome.error(), start_log_, kill_);
      if (!again) return fail(again.error());
      if (!*again) return outcome;
      build_release();
      in_place = false;
    }
  }

  // An earlier release is run as its record says, not as the inputs do.
  Result<void> take_release(int number) {
    const std::string folder = shell_quote(spec_.folder() + "/releases/" + std::to_string(number));
    NodeCommand record_command;
    record_command.script = "cat " + folder + "/release.json\n";
    NodeCommand rest;
    rest.script = "program=$(sed -n 's/^exec \\([^ ]*\\).*/\\1/p' " + folder +
                  "/run)\nif [ -x \"$program\" ]; then echo installed; else echo gone; fi\ncat " + folder + "/" +
                  kClientKey + " 2>/dev/null || :\n";
    auto answers = context_.node().run_all({record_command, rest});
    if (!answers) return fail(answers.error());
    const Value record = Value::parse(answers->at(0).out, nullptr, false);
    if (!answers->at(0).ok() || !record.is_object()) {
      return fail(make_error(ErrorKind::refused, "server " + spec_.name + " has no release " + std::to_string(number))
                      .with_hint("`millwright releases` lists those of a host"));
    }
    const std::vector<std::string> lines = split_lines(answers->at(1).out);
    if (lines.empty() || lines[0] != "installed") {
      return fail(make_error(ErrorKind::refused, "the environment of release " + std::to_string(number) + ", " +
                                                     record.value("environment", "") + ", is no longer there")
                      .with_class("file_missing")
                      .with_hint("deploy that version again, with the inputs that it had"));
    }
    if (lines.size() > 1) {
      spec_.api_key = lines[1];
      redactor().add(spec_.api_key);
    }
    spec_.engine = record.value("engine", spec_.engine);
    spec_.device = record.value("device", spec_.device);
    spec_.version = record.value("version", spec_.version);
    spec_.model = record.value("model", spec_.model);
    spec_.host = record.value("host", spec_.host);
    spec_.port = record.value("port", spec_.port);
    return {};
  }

  Result<StepOutcome> run_release(int number) {
    if (deployed_.current == number && deployed_.files_unchanged && deployed_.active == "active")
      return settle_running();
    if (auto free = port_is_free(); !free) return fail(free.error());
    auto cursor = journal_cursor(context_.node());
    if (!cursor) return fail(cursor.error());
    number_ = number;
    if (auto done = context_.act(switch_action(spec_, number)); !done) return fail(done.error());
    return watch(*cursor, StepState::changed);
  }

  Result<void> look() {
    std::vector<NodeCommand> commands;
    const std::vector<Question> questions = deployed_questions(spec_);
    for (const Question& question : questions) {
      NodeCommand command;
      command.script = question.script;
      command.deadline = question.deadline;
      commands.push_back(std::move(command));
    }
    auto answered = context_.node().run_all(commands);
    if (!answered) return fail(answered.error());
    Answers answers;
    for (std::size_t i = 0; i < questions.size(); ++i) answers.set(questions[i].key, answered->at(i));
    deployed_ = read_deployed(answers);
    number_ = deployed_.current.value_or(0);
    if (!deployed_.model_there) {
      return fail(make_error(ErrorKind::refused, "there is no model " + spec_.model + " on the node")
                      .with_class("file_missing")
                      .with_hint("let a model step put it there, and give this step its output: model: \"{{ "
                                 "steps.weights.path }}\""));
    }
    // The others read a folder, and vLLM a file as well; llama.cpp would end in its loader's words.
    if (deployed_.model_is_folder && profile_.model_is_file) {
      return fail(make_error(ErrorKind::refused, spec_.model + " is a folder; " + profile_.title +
                                                     " takes one GGUF file (of several parts: the first)")
                      .with_class("file_missing")
                      .with_hint("name the file in it: model: " + spec_.model + "/NAME.gguf"));
    }
    return {};
  }

  // What is known before anything is changed, and needed when the rest fails.
  void remember() {
    context_.remember("engine", spec_.engine);
    context_.remember("version", spec_.version);
    context_.remember("previous_release", previous_release());
    context_.remember("replaces", describe_replaced(deployed_, context_.run_id()));
  }

  Value previous_release() const {
    const auto before = release_before(deployed_, spec_.model_sha256, context_.run_id());
    return before && *before != number_ ? Value(*before) : Value();
  }

  Result<void> port_is_free() {
    if (deployed_.port_holder.empty()) return {};
    return fail(make_error(ErrorKind::failed_test, "port " + std::to_string(spec_.port) +
                                                       " is taken: " + split_lines(deployed_.port_holder).front())
                    .with_class("port_taken")
                    .with_hint("stop that process, or give the server another `port`; nothing was changed"));
  }

  // It runs at this moment, as wanted; that systemd starts it again each time must not hide that it dies.
  Error loop() {
    NodeCommand command;
    command.script = "journalctl -q -u " + shell_quote(spec_.unit()) + " -o short-iso --no-pager -n 2000\n";
    auto journal = context_.node().run(command);
    if (!journal) return journal.error();
    StartLog log(profile_);
    log.add(journal->out);
    std::string message = spec_.unit() + " dies again and again: systemd has restarted it " +
                          std::to_string(deployed_.restarts) + " times";
    if (const auto failure = log.failure()) message += "; its log has: " + failure->sentence;
    return make_error(ErrorKind::failed_test, std::move(message))
        .with_class("crash_loop")
        .with_hint("its log is kept as " + context_.keep("server-" + spec_.name + "-loop.log", journal->out) +
                   "; once the cause is gone, `systemctl restart " + spec_.unit() + "` counts from none");
  }

  Result<void> install() {
    context_.progress("installing " + spec_.engine + " " + spec_.version, 0.0);
    const InstallJob job = job_;
    auto change = context_.converge(environment_questions(job),
                                    [job](const Answers& answers) { return plan_environment(job, answers); });
    if (!change) return fail(wrap(change.error(), "installing " + spec_.engine + " " + spec_.version));
    return {};
  }

  Result<void> switch_over() {
    number_ = ++deployed_.highest;
    if (auto done = context_.act(prepare_action(spec_, number_)); !done) return fail(done.error());
    if (auto readable = model_is_readable(); !readable) return readable;
    if (auto done = context_.act(place_release_action(spec_, release_, number_)); !done) return fail(done.error());
    if (auto done = context_.act(switch_action(spec_, number_)); !done) return fail(done.error());
    return {};
  }

  Result<void> start_again() {
    auto done = context_.act(start_again_action(spec_));
    if (!done) return fail(done.error());
    return {};
  }

  Result<void> model_is_readable() {
    NodeCommand command;
    command.script = "runuser -u " + spec_.user() + " -- sh -euc " + shell_quote(kReadModel) + " sh " +
                     shell_quote(spec_.model) + "\n";
    auto answer = context_.node().run(command);
    if (!answer) return fail(answer.error());
    if (answer->ok()) return {};
    return fail(make_error(ErrorKind::refused, "the server's user " + spec_.user() + " cannot read " + spec_.model +
                                                   ": " + std::string(trim(answer->err)))
                    .with_class("permission_denied")
                    .with_hint("give the group millwright read access to it, and to the folders above it"));
  }

  // As wanted and running: ready already, or still on its way.
  Result<StepOutcome> settle_running() {
    auto tunnel = context_.node().tunnel(spec_.probe_host(), spec_.port);
    if (!tunnel) return fail(tunnel.error());
    const StepState state = deployed_.enabled ? StepState::ok : StepState::changed;
    if (!deployed_.enabled) {
      if (auto done = context_.act(enable_action(spec_)); !done) return fail(done.error());
    }
    if (auto name = ask_models(context_, **tunnel, spec_)) {
      Readiness ready;
      ready.served_name = *name;
      StepOutcome outcome = describe(ready, state);
      outcome.outputs["load_seconds"] = nullptr;
      outcome.summary = spec_.engine + " " + spec_.version + " runs and answers, as wanted";
      return outcome;
    }
    return watch("", state);
  }

  Result<StepOutcome> watch(const std::string& cursor, StepState state) {
    StartWatch watch(context_, spec_, profile_, cursor, meant_for());
    auto ready = watch.run();
    start_log_ = watch.log_text();
    kill_ = watch.memory_kill_seen();
    context_.remember("findings", findings_json(watch.findings()));
    if (!ready) return fail(ready.error());
    StepOutcome outcome = describe(*ready, state);
    outcome.summary = profile_.title + " " + spec_.version + " ready";
    if (const auto context = ready->facts.find("context_per_slot"); context != ready->facts.end()) {
      outcome.summary += ", " + context->second + " tokens of context";
    }
    if (!ready->findings.empty() && ready->findings.front().severity == SignSeverity::warn)
      outcome.summary += "; its log: " + ready->findings.front().sentence;
    return outcome;
  }

  // An engine that takes what it finds is meant for the GPUs, where there are any.
  std::string meant_for() const {
    return spec_.device == "auto" ? (deployed_.gpus_there ? "cuda" : "cpu") : spec_.device;
  }

  StepOutcome describe(const Readiness& ready, StepState state) const {
    StepOutcome outcome;
    outcome.state = state;
    outcome.outputs = {{"endpoint", "http://" + spec_.probe_host() + ":" + std::to_string(spec_.port) + "/v1"},
                       {"host", spec_.probe_host()},
                       {"port", spec_.port},
                       {"engine", spec_.engine},
                       {"version", spec_.version},
                       {"model", spec_.model},
                       {"served_name", ready.served_name},
                       {"release", number_},
                       {"previous_release", previous_release()},
                       {"unit", spec_.unit()},
                       {"load_seconds", std::round(ready.seconds * 10) / 10},
                       {"facts", ready.facts},
                       {"findings", findings_json(ready.findings)}};
    return outcome;
  }

  StepContext& context_;
  const EngineProfile& profile_;
  ServerSpec spec_;
  InstallJob job_;
  DeployedServer deployed_;
  Release release_;
  int number_ = 0;
  std::optional<MemoryTuning> memory_;
  std::string start_log_;  // of the last start that was watched
  MemoryKill kill_;        // and what the kernel did to it
};

}  // namespace

ServerStep::ServerStep(Knowledge knowledge)
    : knowledge_(std::move(knowledge)), signature_(server_signature(knowledge_)) {}

Result<StepOutcome> ServerStep::run(StepContext& context) const {
  const Inputs& inputs = context.inputs();
  auto profile = engine_profile(knowledge_, inputs.string("engine"));
  if (!profile) return fail(profile.error());
  auto spec = server_spec(*profile, inputs);
  if (!spec) return fail(spec.error());
  if (const std::vector<Error> wrong = check_command(inputs); !wrong.empty()) return fail(wrong.front());
  if (spec->release) return Deployment(context, *profile, std::move(*spec), {}).run();
  const EngineInstaller* installer = find_installer(source_text(spec->source, "method"));
  if (installer == nullptr)
    return fail(ErrorKind::invalid, "the source of " + spec->version + " names no known method");
  if (const std::vector<Error> wrong = installer->check(spec->source); !wrong.empty()) {
    return fail(wrap(wrong.front(), "source of version " + spec->version));
  }
  auto job = install_job(spec->engine, spec->version, spec->source, profile->executable);
  if (!job) return fail(job.error());
  const Knowledge* planner_data = flag_knowledge() ? &*flag_knowledge() : nullptr;
  return Deployment(context, *profile, std::move(*spec), std::move(*job), planner_data).run();
}

std::vector<Question> ServerStep::preview_questions(const Inputs& inputs) const {
  auto profile = engine_profile(knowledge_, inputs.string("engine"));
  if (!profile) return {};
  auto spec = server_spec(*profile, inputs);
  return spec ? deployed_questions(*spec) : std::vector<Question>{};
}

Result<std::string> ServerStep::preview(const Inputs& inputs, const Answers& answers) const {
  auto profile = engine_profile(knowledge_, inputs.string("engine"));
  if (!profile) return fail(profile.error());
  auto spec = server_spec(*profile, inputs);
  if (!spec) return fail(spec.error());
  const DeployedServer deployed = read_deployed(answers);
  const std::string wanted = profile->title + " " + spec->version;
  if (!deployed.current) return "would deploy " + wanted + " as release " + std::to_string(deployed.highest + 1);
  const std::string now = deployed.record.value("engine", "") + " " + deployed.record.value("version", "");
  const std::string release = now + " as release " + std::to_string(*deployed.current);
  if (deployed.active != "active") return "does not run (" + deployed.active + "): " + release;
  if (deployed.dies_again_and_again) {
    return "dies again and again (" + std::to_string(deployed.restarts) + " restarts): " + release +
           "; see journalctl -u " + spec->unit();
  }
  if (!deployed.environment_damage.empty()) return "of its engine " + deployed.environment_damage + ": " + release;
  if (!deployed.findings.empty()) return join(deployed.findings, "; ") + ": " + release;
  if (!deployed.files_unchanged) return "runs with files that were changed by hand: " + release;
  if (!deployed.enabled) return "does not start with the machine (disabled): " + release;
  if (!deployed.drop_ins.empty())
    return "a drop-in changes its unit (" + join(deployed.drop_ins, ", ") + "): " + release;
  return "runs " + release + "; wanted " + wanted;
}

std::optional<bool> ServerStep::drifted(const Inputs& /*inputs*/, const Answers& answers) const {
  const DeployedServer deployed = read_deployed(answers);
  return !deployed.current || !deployed.files_unchanged || deployed.active != "active" ||
         deployed.dies_again_and_again || !deployed.model_there || !deployed.environment_damage.empty() ||
         !deployed.enabled || !deployed.drop_ins.empty();
}

void register_server_steps(StepRegistry& registry, const Knowledge& knowledge) {
  registry.add(std::make_unique<ServerStep>(knowledge));
}

}  // namespace millwright

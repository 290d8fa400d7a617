// Killed at any instant, interrupted, locked out.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "orchestrator/base/redact.hpp"
#include "orchestrator/engine/node_lock.hpp"
#include "orchestrator/engine/parameters.hpp"
#include "orchestrator/journal/sqlite_journal.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

using Lines = std::vector<std::string>;

// Overwrites, makes, runs what cannot be asked, and works in a container: all that a tree can show.
constexpr const char* mixed = R"(
name: mixed
hosts: all
steps:
  - {id: a, uses: note, with: {path: "{dir}/a", text: one}}
  - {id: b, uses: note, foreach: [x, "y", z], with: {path: "{dir}/b-{{ item }}", text: "{{ item }}"}}
  - {id: box, uses: box, with: {path: "{dir}/box"}}
  - {id: c, uses: note, in: box, with: {path: "{dir}/box/c", text: three}}
  - {id: d, uses: note, with: {path: "{dir}/a", text: two}}
  - {id: e, uses: note, with: {path: "{dir}/e", text: "{{ steps.d.text }}"}}
)";

void prepare_hosts(Bench& bench) {
  for (const char* host : {"h1", "h2"}) {
    write_file(bench.dir(host) + "/a", "zero");
    write_file(bench.dir(host) + "/kept", "kept");
  }
}

// `sink`: null for one that does nothing.
[[noreturn]] void run_in_child(Bench& bench, const std::string& state, const std::string& book,
                               const std::vector<std::string>& names, EventSink* sink) {
  auto journal = open_sqlite_journal(state);
  if (!journal) _exit(9);
  Bench inner(bench, **journal);
  std::vector<PlayHost> hosts;
  for (const std::string& name : names) hosts.push_back(bench.host(name));
  const std::string text = bench.text_of(book);
  auto parsed = parse_playbook(text, "test.yml", inner.registry);
  if (!parsed) _exit(9);
  EventList quiet;
  EngineServices services;
  services.connector = &inner.lab;
  services.journal = journal->get();
  services.sink = sink == nullptr ? &quiet : sink;
  services.clock = &inner.clock;
  services.http = &inner.http;
  services.registry = &inner.registry;
  const Result<RunSummary> done =
      Engine(services, inner.interrupt).run(*parsed, text, inner.inputs, hosts, inner.options);
  _exit(done ? 0 : 9);
}

// Runs the play in a child of its own journal and kills it after so long; true when it was still at work.
bool run_and_kill(Bench& bench, const std::string& state, std::chrono::microseconds after) {
  const pid_t child = fork();
  if (child == 0) run_in_child(bench, state, mixed, {"h1", "h2"}, nullptr);
  std::this_thread::sleep_for(after);
  kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

std::string whole_tree(const Bench& bench) { return tree(bench.dir("h1")) + "\n--\n" + tree(bench.dir("h2")); }

std::string wanted_tree() {
  Bench bench;
  prepare_hosts(bench);
  EXPECT_TRUE(bench.apply(mixed, {"h1", "h2"})) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
  return whole_tree(bench);
}

// Whatever has begun on the node has its undo there and in the journal.
void expect_undo_of_all_that_began(const Bench& bench, Journal& journal) {
  const std::string run = journal.find_run("last").value()->id;
  const std::vector<UndoRecord> undos = journal.undos(run).value();
  const std::filesystem::path runs = bench.options.node_state_dir + "/runs/" + run;
  if (!std::filesystem::exists(runs)) return;
  for (const auto& entry : std::filesystem::directory_iterator(runs)) {
    const std::string outcome = read_file(entry.path().string() + "/outcome");
    const bool began =
        outcome.rfind("started", 0) == 0 || outcome.rfind("done", 0) == 0 || outcome.rfind("failed", 0) == 0;
    if (!began) continue;
    EXPECT_TRUE(std::filesystem::exists(entry.path() / "undo.sh")) << entry.path();
    const auto here = [&](const UndoRecord& undo) { return undo.remote_dir == entry.path().string(); };
    EXPECT_TRUE(std::any_of(undos.begin(), undos.end(), here)) << entry.path();
  }
}

TEST(Killed, AtAnyInstantResumeEndsAsAnUndisturbedRunAndRollbackAsBefore) {
  const std::string wanted = wanted_tree();
  std::mt19937 random(1130);
  int killed = 0;
  constexpr int rounds = 24;
  for (int round = 0; round < rounds; ++round) {
    Bench bench;
    prepare_hosts(bench);
    const std::string before = whole_tree(bench);
    const std::string state = bench.folder.path() + "/journal";
    killed += run_and_kill(bench, state, std::chrono::microseconds(20'000 + random() % 400'000)) ? 1 : 0;
    auto journal = open_sqlite_journal(state);
    ASSERT_TRUE(journal) << render(journal.error());
    bench.journal = journal->get();
    if (!(*journal)->find_run("last").value()) continue;
    expect_undo_of_all_that_began(bench, **journal);
    if (round % 2 == 0) {
      ASSERT_TRUE(bench.resume("last")) << render(*bench.error);
      EXPECT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
      EXPECT_EQ(whole_tree(bench), wanted) << "round " << round;
    } else {
      ASSERT_TRUE(bench.rollback("last")) << render(*bench.error);
      EXPECT_EQ(bench.last.exit, ExitCode::rolled_back)
          << bench.last.sentence << (bench.last.remaining.empty() ? "" : bench.last.remaining[0]);
      EXPECT_EQ(whole_tree(bench), before) << "round " << round;
      EXPECT_EQ(bench.events(EventType::run_finished)[0].data["exit_code"], 0) << "what was asked for is done";
    }
    EXPECT_TRUE((*journal)->locks().value().empty());
    EXPECT_FALSE(std::filesystem::is_symlink(bench.options.node_state_dir + "/lock"));
  }
  EXPECT_GE(killed, rounds / 2) << "the kills came too late to mean anything";
}

// Hangs at the end of the first step, as a controller that is stopped there; the node goes on with what it was sent.
class HangingSink final : public EventSink {
 public:
  void on_event(const Event& event) override {
    while (event.type == EventType::step_finished) pause();
  }
};

// Three actions of a pipeline have run or run, of which the controller knows of one, when it is killed.
struct KilledInAPipeline {
  KilledInAPipeline() {
    const pid_t child = fork();
    HangingSink sink;
    if (child == 0) run_in_child(bench, state, book, {"h1"}, &sink);
    while (read_file(log).find("begin slow") == std::string::npos) std::this_thread::sleep_for(pause);
    kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    journal = std::move(*open_sqlite_journal(state));
    bench.journal = journal.get();
    undos = journal->undos(journal->find_run("last").value()->id).value();
    // The one that runs ends only when the one behind it can no longer begin.
    watch = std::thread([this] {
      while (!std::filesystem::exists(undos.back().remote_dir + "/claim")) std::this_thread::sleep_for(pause);
      std::ofstream(log, std::ios::app) << "begin go\n";
    });
  }
  ~KilledInAPipeline() { watch.join(); }

  static constexpr auto pause = std::chrono::milliseconds(5);
  const std::string book = R"(
name: sent together
hosts: all
steps:
  - {id: a, uses: note, with: {path: "{dir}/a", text: one}}
  - {id: hello, uses: say, with: {to: "{dir}/said", text: hello, undo: "rm {{ vars.dir }}/said"}}
  - {id: each, uses: say, foreach: [x, "y"], with: {to: "{dir}/said", text: "{{ item }}", undo: ":"}}
  - {id: slow, uses: span, with: {log: "{dir}/log", name: slow, meets: go}}
  - {id: d, uses: note, with: {path: "{dir}/d", text: four}}
)";
  Bench bench;
  std::string state = bench.folder.path() + "/journal";
  std::string log = bench.dir("h1") + "/log";
  std::unique_ptr<Journal> journal;
  std::vector<UndoRecord> undos;
  std::thread watch;
};

TEST(Killed, InAPipelineResumeRepeatsNothingAndGoesOn) {
  KilledInAPipeline killed;
  Bench& bench = killed.bench;
  ASSERT_EQ(killed.undos.size(), 6u) << "all on record before anything was sent";
  expect_undo_of_all_that_began(bench, *killed.journal);
  ASSERT_TRUE(bench.resume("last")) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
  EXPECT_EQ(bench.results(), (Lines{"h1 a ok", "h1 hello ok", "h1 each ok", "h1 slow ok", "h1 d changed"}));
  EXPECT_EQ(read_file(bench.dir("h1") + "/said"), "hello\nx\ny\n");
  EXPECT_EQ(read_file(bench.dir("h1") + "/d"), "four");
}

TEST(Killed, InAPipelineRollbackTakesAllOfItBack) {
  KilledInAPipeline killed;
  Bench& bench = killed.bench;
  ASSERT_TRUE(bench.rollback("last")) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
  EXPECT_EQ(tree(bench.dir("h1")), "log: begin go\n") << "which the test itself wrote";
}

TEST(Resume, WhatHadFinishedIsAskedAgainAndWhatCannotBeAskedIsNotRepeated) {
  Bench bench;
  const char* book = R"(
name: x
hosts: all
steps:
  - {id: a, uses: note, with: {path: "{dir}/a", text: one}}
  - {id: hello, uses: say, with: {to: "{dir}/log", text: hello}}
  - {id: c, uses: note, with: {path: "{dir}/c", text: "{{ steps.hello.said }}"}}
)";
  write_file(bench.dir("h1") + "/c", "hands off");
  ASSERT_TRUE(bench.apply(book)) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
  write_file(bench.dir("h1") + "/c", "");
  std::filesystem::remove(bench.dir("h1") + "/a");
  ASSERT_TRUE(bench.resume("last")) << render(*bench.error);
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 hello ok", "h1 c changed"}));
  EXPECT_EQ(read_file(bench.dir("h1") + "/log"), "hello\n");
  EXPECT_EQ(read_file(bench.dir("h1") + "/c"), "hello\n");
  EXPECT_EQ(bench.last.exit, ExitCode::done);
}

TEST(Resume, AnUnknownRunIsSaidSo) {
  Bench bench;
  ASSERT_FALSE(bench.resume("20200101"));
  EXPECT_NE(bench.error->message.find("knows no run 20200101"), std::string::npos);
  EXPECT_FALSE(bench.error->hint.empty());
}

TEST(Interrupt, OnceFinishesWhatRunsAndStartsNoMore) {
  Bench bench;
  bench.options.pipelining = Pipelining::off;  // pipeline_test.cpp has the same for steps that travel together
  bench.lab.before_script([&](const std::string&, const std::string& script) {
    if (script.rfind("# millwright:", 0) == 0) bench.interrupt = 1;
  });
  const char* book =
      "name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"
      "  - {id: b, uses: note, with: {path: \"{dir}/b\", text: two}}\n";
  ASSERT_TRUE(bench.apply(book));
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 b cancelled"}));
  EXPECT_EQ(bench.last.exit, ExitCode::interrupted);
  EXPECT_NE(bench.last.sentence.find("millwright resume " + bench.last.run), std::string::npos);
  bench.interrupt = 0;
  ASSERT_TRUE(bench.resume("last"));
  EXPECT_EQ(bench.results(), (Lines{"h1 a ok", "h1 b changed"}));
  EXPECT_EQ(bench.last.exit, ExitCode::done);
}

TEST(Interrupt, TwiceStopsAtOnceWithTheJournalIntact) {
  Bench bench;
  std::thread impatient;
  bench.lab.before_script([&](const std::string&, const std::string& script) {
    if (script.find("sleep 60") == std::string::npos || impatient.joinable()) return;
    impatient = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      bench.interrupt = 2;
    });
  });
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(bench.apply(
      "name: x\nhosts: all\nsteps:\n  - {id: a, uses: sleepy, with: {seconds: 60}, on_failure: [{do: rollback}]}\n"
      "  - {id: b, uses: note, with: {path: \"{dir}/b\", text: two}}\n"));
  impatient.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(bench.results(), (Lines{"h1 a cancelled", "h1 b cancelled"}));
  EXPECT_EQ(bench.last.exit, ExitCode::interrupted);
  EXPECT_TRUE(bench.memory.find_run("last").value()->finished.has_value());
}

TEST(Timeout, AStepIsEndedWhenItsTimeIsUp) {
  Bench bench;
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: sleepy, timeout: 300ms, with: {seconds: 60}}\n"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(bench.results(), (Lines{"h1 a failed"})) << bench.last.sentence;
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
}

TEST(Locks, ARunOfAnotherControllerOnTheNodeIsRespected) {
  Bench bench;
  const std::string state = bench.options.node_state_dir;
  std::filesystem::create_directories(state);
  const std::string held = "r9|ann@desk pid 7|desk|boot|ns|7|1|2026-11-30T10:00:00Z|moving the model";
  std::filesystem::create_symlink(held, state + "/lock");
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"));
  EXPECT_EQ(bench.last.exit, ExitCode::lock_held);
  for (const char* part : {"ann@desk", "r9", "2026-11-30T10:00:00Z", "moving the model"}) {
    EXPECT_NE(bench.last.sentence.find(part), std::string::npos) << bench.last.sentence;
  }
  EXPECT_EQ(tree(bench.dir("h1")), "");
}

TEST(Locks, ALockOfADeadRunOfThisMachineIsTakenOver) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  Bench bench;
  Playbook nothing;
  EngineServices services;
  EventList sink;
  services.journal = &bench.memory;
  services.sink = &sink;
  services.clock = &bench.clock;
  RunContext run(services, bench.interrupt, nothing, Value::object(), bench.options, "r8");
  run.holder = "me";
  std::string held = "r8|" + node_lock_text(run);
  const std::string own = "|" + std::to_string(getpid()) + "|";
  EXPECT_FALSE(holder_is_dead(held));
  held.replace(held.find(own), own.size(), "|" + std::to_string(child) + "|");
  EXPECT_TRUE(holder_is_dead(held));
  std::filesystem::create_directories(bench.options.node_state_dir);
  std::filesystem::create_symlink(held, bench.options.node_state_dir + "/lock");
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"));
  EXPECT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
}

TEST(Locks, AHostLockedInTheJournalKeepsTheRunFromStarting) {
  Bench bench;
  ASSERT_TRUE(bench.memory.lock({"node:h1", "bob run 5", "testing", bench.clock.now()}));
  ASSERT_FALSE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"));
  EXPECT_EQ(bench.error->kind, ErrorKind::busy);
  EXPECT_NE(bench.error->message.find("bob run 5"), std::string::npos);
  EXPECT_TRUE(bench.memory.runs(10).value().empty());
}

TEST(JournalFailure, NothingIsDoneThatCouldNotBeRecorded) {
  Bench bench;
  bench.lab.before_script([&](const std::string&, const std::string& script) {
    if (script.rfind("cat ", 0) == 0) bench.memory.fail_writes(make_error(ErrorKind::io, "disk full"));
  });
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"));
  EXPECT_EQ(tree(bench.dir("h1")), "");
  EXPECT_NE(bench.last.exit, ExitCode::done);
}

TEST(SecretInputs, AreUsedAndNeverKept) {
  Bench bench;
  const char* book = R"(
name: x
hosts: all
inputs:
  token: {secret: true, required: true}
  keys: {type: list, secret: true, default: [default-key-77]}
steps:
  - {id: a, uses: note, with: {path: "{dir}/a", text: "{{ inputs.token }}"}}
  - {id: b, uses: note, with: {path: "{dir}/b", text: "{{ inputs.keys[0] }}"}}
  - {id: c, uses: note, with: {path: "{dir}/c", text: three}}
)";
  bench.inputs = {{"token", "zebra-41-stripes"}, {"keys", {"default-key-77"}}};
  write_file(bench.dir("h1") + "/c", "hands off");
  ASSERT_TRUE(bench.apply(book)) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
  EXPECT_EQ(read_file(bench.dir("h1") + "/a"), "zebra-41-stripes");
  const RunRecord run = bench.memory.find_run("last").value().value();
  std::string kept = run.parameters.dump() + run.sentence;
  for (const Event& event : bench.sink->all()) kept += event.data.dump();
  const std::vector<StepRecord> steps = bench.memory.steps(run.id).value();
  for (const StepRecord& step : steps) kept += step.inputs.dump() + step.outputs.dump();
  EXPECT_EQ(kept.find("zebra-41"), std::string::npos) << kept;
  EXPECT_EQ(kept.find("default-key-77"), std::string::npos) << kept;
  write_file(bench.dir("h1") + "/c", "");
  ASSERT_FALSE(bench.resume("last"));
  EXPECT_NE(bench.error->message.find("of the run was one"), std::string::npos) << bench.error->message;
  bench.options.refreshed_inputs = bench.inputs;
  ASSERT_TRUE(bench.resume("last")) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
  EXPECT_EQ(read_file(bench.dir("h1") + "/a"), "zebra-41-stripes");
}

// "Somebody else" may be oneself, later.
TEST(Rollback, NamesTheLaterRunThatChangedTheSame) {
  Bench bench;
  const auto note = [](const std::string& text) {
    return "name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: " + text + "}}\n";
  };
  ASSERT_TRUE(bench.apply(note("one"))) << render(*bench.error);
  const std::string first = bench.last.run;
  ASSERT_TRUE(bench.apply(note("two"))) << render(*bench.error);
  const std::string second = bench.last.run;
  ASSERT_TRUE(bench.rollback(first)) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::rollback_incomplete);
  ASSERT_FALSE(bench.last.remaining.empty());
  EXPECT_NE(bench.last.remaining[0].find("; run " + second + " changed it since: millwright rollback " + second),
            std::string::npos)
      << bench.last.remaining[0];
  // Once that one is taken back, this one can be.
  ASSERT_TRUE(bench.rollback(second)) << render(*bench.error);
  ASSERT_TRUE(bench.rollback(first)) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
}

TEST(Rollback, KeepsHowTheRunHadFailed) {
  Bench bench;
  write_file(bench.dir("h1") + "/b", "hands off");
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"
                  "  - {id: b, uses: note, with: {path: \"{dir}/b\", text: two}}\n"))
      << render(*bench.error);
  const std::string failed = bench.last.sentence;
  ASSERT_EQ(bench.last.exit, ExitCode::failed) << failed;
  const std::string run = bench.last.run;
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(bench.rollback(run)) << render(*bench.error);
    const std::string kept = bench.memory.find_run(run).value().value().sentence;
    EXPECT_EQ(kept, round == 0 ? "rolled back; before that: " + failed : "rolled back");
  }
}

TEST(NodeLock, TheMessageSaysTheRunOnce) {
  const std::string held =
      "20261130-1412-k3f|root@here pid 12 run 20261130-1412-k3f|here|b|p|12|s|2026-11-30T14:12:03Z|apply x.yml";
  const std::string said = node_lock_error("gpu1", held).message;
  EXPECT_EQ(said,
            "gpu1 is locked by run 20261130-1412-k3f of root@here pid 12 since 2026-11-30T14:12:03Z: apply x.yml");
}

TEST(Parameters, SecretsAreNotKeptAndAreFilledInFromToday) {
  redactor().add("hunter22secret");
  RunParameters parameters;
  parameters.inputs = {{"token", "hunter22secret"}, {"model", "m"}};
  PlayHost host;
  host.target.name = "h1";
  host.target.port = 2222;
  host.target.host_key_policy = HostKeyPolicy::accept_new;
  host.target.become = Become::root;
  host.target.become_password = "hunter22secret";
  host.vars = {{"key", "hunter22secret"}, {"x", 1}};
  parameters.hosts = {host};
  const Value kept = parameters_value(parameters);
  EXPECT_EQ(kept.dump().find("hunter22secret"), std::string::npos);
  RunOptions today;
  EXPECT_FALSE(parameters_of(kept, today));
  host.vars["x"] = 2;
  today.refreshed_hosts = {host};
  today.refreshed_inputs = parameters.inputs;
  today.refreshed_inputs["model"] = "other";
  const Result<RunParameters> back = parameters_of(kept, today);
  ASSERT_TRUE(back) << render(back.error());
  EXPECT_EQ(back->inputs["token"], "hunter22secret");
  EXPECT_EQ(back->inputs["model"], "m") << "only secrets are taken from today";
  EXPECT_EQ(back->hosts[0].vars["x"], 1);
  EXPECT_EQ(back->hosts[0].target.become_password, "hunter22secret");
  EXPECT_EQ(back->hosts[0].target.port, 2222);
  EXPECT_EQ(back->hosts[0].target.host_key_policy, HostKeyPolicy::accept_new);
}

}  // namespace
}  // namespace millwright::testing

#include "orchestrator/playbook/playbook.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/unit/playbook/kinds.hpp"

namespace millwright {
namespace {

using namespace std::chrono_literals;
using testing::registry;

tl::expected<Playbook, std::vector<Error>> parse(std::string_view text, const ParseOptions& options = {}) {
  return parse_playbook(text, "p.yml", registry(), options);
}

Playbook good(std::string_view text) {
  auto playbook = parse(text);
  EXPECT_TRUE(playbook) << render_all(playbook.error());
  return playbook ? std::move(*playbook) : Playbook{};
}

std::string first_error(std::string_view text, const ParseOptions& options = {}) {
  const auto playbook = parse(text, options);
  if (playbook) return "no error";
  const Error& error = playbook.error()[0];
  return std::to_string(error.where->line) + ":" + std::to_string(error.where->column) + " " + error.message +
         (error.hint.empty() ? "" : "; " + error.hint);
}

const std::string kTop = "hosts: all\nsteps:\n";

std::string needs_of(const StepDecl& step) {
  std::string out;
  for (const NeedDecl& need : step.needs) out += (out.empty() ? "" : " ") + need.step + (need.on_all ? "*" : "");
  return out;
}

TEST(Playbook, ReadsTheWholeLanguage) {
  const Playbook playbook = good(R"(
name: Serve a model
hosts: [inference, "!gpu9"]
inputs:
  model:  {type: string, required: true, doc: "Hugging Face id"}
  engine: {default: sglang, one_of: [sglang, vllm]}
  count:  {type: integer, default: "3"}
  token:  {secret: true}
vars:
  dir: "/srv/{{ inputs.model }}"
  port: 30000
strategy: {canary: 1, batch: 25%, max_failures: 2}
steps:
  - id: gpus
    name: Bind the GPUs
    uses: gpu.bind
    with: {select: all, driver: nvidia}
    tags: [gpu, once]
  - id: box
    uses: container
    with: {name: llm}
    retry: {times: 3, delay: 10s, backoff: 2}
  - id: weights
    uses: command
    in: box
    needs: []
    with: {run: "fetch {{ inputs.model | quote }}", env: {TOKEN: "{{ inputs.token }}", A: b}}
    register: fetched
    timeout: 1h30m
    lock: disk
    become: false
  - uses: file
    needs: [weights, {step: gpus, on: all}]
    when: fetched.code == 0 and inputs.count > 2
    foreach: "{{ [vars.dir, '/tmp'] }}"
    with:
      path: "{{ item }}/{{ index }}"
      content: "{{ steps.box.ip }} {{ steps['weights'].stdout }} {{ host.name }}"
    ignore_failure: true
    retry: 2
  - uses: file
    with: {path: /etc/x}
  - id: smoke
    uses: smoke
    in: box
    with: {level: standard}
    on_failure:
      - {do: remedy, attempts: 4, within: 30m}
      - {do: rollback}
)");
  EXPECT_EQ(playbook.name, "Serve a model");
  EXPECT_EQ(playbook.hosts, "inference,!gpu9");
  EXPECT_EQ(playbook.inputs.at("engine").spec.one_of.size(), 2u);
  EXPECT_EQ(playbook.inputs.at("count").spec.default_value, 3);
  EXPECT_EQ(playbook.inputs.at("token").spec.secrecy, Secrecy::secret);
  EXPECT_EQ(playbook.strategy.canary, 1);
  ASSERT_EQ(playbook.strategy.batch.size(), 1u);
  EXPECT_EQ(playbook.strategy.batch[0].of(10), 3);
  EXPECT_EQ(playbook.strategy.batch[0].of(1), 1);
  EXPECT_EQ(playbook.strategy.max_failures->of(10), 2);
  ASSERT_EQ(playbook.steps.size(), 6u);
  EXPECT_EQ(playbook.steps[0].name, "Bind the GPUs");
  EXPECT_EQ(playbook.steps[0].tags, (std::vector<std::string>{"gpu", "once"}));
  EXPECT_EQ(needs_of(playbook.steps[0]), "");
  EXPECT_EQ(needs_of(playbook.steps[1]), "gpus");
  EXPECT_EQ(playbook.steps[1].retry.times, 3);
  EXPECT_EQ(playbook.steps[1].retry.delay, 10s);
  EXPECT_EQ(playbook.steps[1].retry.backoff, 2.0);
  EXPECT_EQ(needs_of(playbook.steps[2]), "box");  // of `in`, though needs is []
  EXPECT_EQ(playbook.steps[2].timeout, 90min);
  EXPECT_EQ(playbook.steps[2].lock.name, "disk");
  EXPECT_EQ(playbook.steps[2].become, false);
  EXPECT_EQ(playbook.steps[2].register_as, "fetched");
  EXPECT_EQ(needs_of(playbook.steps[3]), "weights gpus*");
  EXPECT_EQ(playbook.steps[3].id, "file");
  EXPECT_EQ(playbook.steps[4].id, "file-2");
  EXPECT_TRUE(playbook.steps[3].ignore_failure);
  EXPECT_EQ(playbook.steps[3].retry.times, 2);
  EXPECT_EQ(playbook.steps[3].mark.line, 32);
  EXPECT_EQ(needs_of(playbook.steps[5]), "file-2 box");
  EXPECT_EQ(playbook.steps[5].on_failure.size(), 2u);
  EXPECT_EQ(playbook.steps[5].on_failure[0].attempts, 4);
  EXPECT_EQ(playbook.steps[5].on_failure[0].within, 30min);
  EXPECT_EQ(playbook.steps[5].on_failure[1].kind, HandlerKind::rollback);
  EXPECT_EQ(playbook.find("weights"), &playbook.steps[2]);
  EXPECT_EQ(playbook.find("nope"), nullptr);
}

TEST(Playbook, RendersWithItsScope) {
  const Playbook playbook = good(kTop + "  - uses: command\n    with: \"echo {{ vars.x }}\"\n");
  const ObjectScope scope(Value::parse(R"({"vars": {"x": 5}})"));
  EXPECT_EQ(playbook.steps[0].with.render(scope)->dump(), R"({"run":"echo 5"})");
}

TEST(Playbook, OrderOfExplicitAndMadeIds) {
  const Playbook playbook =
      good(kTop + "  - {uses: gpu.bind}\n  - {uses: gpu.bind}\n  - {id: gpu-bind-2, uses: gpu.bind}\n");
  EXPECT_EQ(playbook.steps[0].id, "gpu-bind");
  EXPECT_EQ(playbook.steps[1].id, "gpu-bind-3");
}

TEST(Playbook, NeedsMayPointForward) {
  const Playbook playbook = good(kTop +
                                 "  - {id: a, uses: command, with: x, needs: [b]}\n"
                                 "  - {id: b, uses: command, with: y, needs: []}\n");
  EXPECT_EQ(needs_of(playbook.steps[0]), "b");
}

TEST(Playbook, VariablesOfTheInventory) {
  const std::string text = kTop + "  - {uses: command, with: \"{{ vars.prot }}\"}\n";
  EXPECT_EQ(first_error(text), "no error");  // it may come from an inventory
  ParseOptions options;
  options.inventory_variables = {"port"};
  EXPECT_EQ(first_error(text, options), "3:31 'vars.prot' is not defined here; did you mean 'vars.port'?");
  options.inventory_variables = {"prot"};
  EXPECT_EQ(first_error(text, options), "no error");
}

TEST(Playbook, WhatIsGuardedMayBeUndefined) {
  EXPECT_EQ(
      first_error(kTop + "  - uses: command\n    with: \"{{ inputs.x | default('') }}\"\n    when: foo is defined\n"),
      "no error");
}

TEST(Playbook, OutputsThroughVariablesAreOrderedToo) {
  const std::string vars = "vars: {a: '{{ vars.b }}', b: '{{ steps.late.stdout }}'}\n";
  EXPECT_EQ(first_error(vars + kTop +
                        "  - {id: early, uses: command, with: \"{{ vars.a }}\"}\n"
                        "  - {id: late, uses: command, with: x}\n"),
            "4:42 step 'late' is not before this one (through vars.a); add it: needs: [late]");
  EXPECT_EQ(first_error(vars + kTop +
                        "  - {id: late, uses: command, with: x}\n"
                        "  - {id: early, uses: command, with: \"{{ vars.a }}\"}\n"),
            "no error");
}

TEST(Playbook, OutputsOfStepsThatRepeat) {
  const std::string steps =
      kTop + "  - {id: many, uses: command, with: x, foreach: [1, 2]}\n  - uses: command\n    with: ";
  EXPECT_EQ(first_error(steps + "\"{{ steps.many.items[0].stdout }}\"\n"), "no error");
  EXPECT_EQ(first_error(steps + "\"{{ steps.many.stdout }}\"\n"),
            "5:15 'steps.many.stdout' is not defined here; the step has a foreach: write steps.many.items[0]...");
}

TEST(Playbook, IdsWithDashesNeedBrackets) {
  const std::string steps = kTop + "  - {id: my-box, uses: container, with: {name: x}}\n  - uses: command\n    with: ";
  EXPECT_EQ(first_error(steps + "\"{{ steps['my-box'].ip }}\"\n"), "no error");
  EXPECT_EQ(first_error(steps + "\"{{ steps.my-box.ip }}\"\n"),
            "5:15 'steps.my' is not defined here; with '-' in the id write steps['my-box']");
}

TEST(Playbook, RelativeFilesBelongToThePlaybook) {
  char name[] = "/tmp/mw-playbook-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::filesystem::path folder = name;
  std::filesystem::create_directories(folder / "roles");
  std::ofstream(folder / "roles/x.conf") << "a = {{ inputs.a }}\nb = {{ inputs.nope }}\n";
  std::ofstream(folder / "roles/steps.yml") << "- uses: template\n  with: {path: /x, source: x.conf}\n";
  std::ofstream(folder / "main.yml") << "hosts: all\ninputs: {a: {default: 1}}\nsteps:\n  - include: roles/steps.yml\n";
  const auto broken = load_playbook((folder / "main.yml").string(), registry());
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error()[0].where->file, (folder / "roles/x.conf").string());
  EXPECT_EQ(broken.error()[0].where->line, 2);
  EXPECT_EQ(broken.error()[0].where->column, 8);
  std::ofstream(folder / "roles/x.conf") << "a = {{ inputs.a }}\n";
  const auto playbook = load_playbook((folder / "main.yml").string(), registry());
  ASSERT_TRUE(playbook) << render_all(playbook.error());
  const ObjectScope scope(Value::parse(R"({"inputs": {"a": 7}})"));
  const Value with = *playbook->steps[0].with.render(scope);
  EXPECT_EQ(with["content"], "a = 7\n");
  EXPECT_EQ(with["source"], (folder / "roles/x.conf").string());
  std::filesystem::remove_all(folder);
}

TEST(Playbook, InputsAreCheckedAndFilled) {
  const Playbook playbook = good(
      "inputs: {model: {required: true}, n: {type: integer, default: 2}, e: {one_of: [a, b]}}\n"
      "vars: {v: 1}\n" +
      kTop + "  []\n");
  EXPECT_EQ(resolve_inputs(playbook, Value::parse(R"({"model": "x", "n": "5"})"))->dump(),
            R"({"e":null,"model":"x","n":5})");
  const auto bad = resolve_inputs(playbook, Value::parse(R"({"modle": "x", "n": "five", "e": "c", "v": 2})"));
  ASSERT_FALSE(bad);
  EXPECT_EQ(
      render_all(bad.error()),
      "error: playbook p.yml has no input 'modle'\n"
      "      did you mean 'model'?\n"
      "error: playbook p.yml has no input 'v'\n"
      "      it is a variable there; declare it under inputs: to set it from outside\n"
      "p.yml:1:67: error: \"c\" is not one that 'e' knows\n"
      "    1 | inputs: {model: {required: true}, n: {type: integer, default: 2}, e: {one_of: [a, b]}}\n"
      "      |                                                                   ^ did you mean 'a'? It takes: a, b\n"
      "p.yml:1:10: error: input 'model' is required\n"
      "    1 | inputs: {model: {required: true}, n: {type: integer, default: 2}, e: {one_of: [a, b]}}\n"
      "      |          ^^^^^ give it with -e model=...\n"
      "p.yml:1:35: error: 'n' takes an integer, but \"five\" is a string\n"
      "    1 | inputs: {model: {required: true}, n: {type: integer, default: 2}, e: {one_of: [a, b]}}\n"
      "      |                                   ^\n"
      "5 errors; nothing was contacted.\n");
}

// Linear: ten times the steps take about ten times as long, not a hundred times.
TEST(Playbook, ManyStepsTakeLinearTime) {
  const auto seconds = [](int count) {
    std::string text = "inputs: {a: {default: x}}\n" + kTop;
    for (int i = 0; i < count; ++i) {
      const std::string n = std::to_string(i);
      text += "  - id: s" + n + "\n    uses: command\n    register: r" + n +
              "\n    with:\n      run: \"echo {{ inputs.a }}";
      if (i > 0) text += " {{ steps.s" + std::to_string(i / 2) + ".stdout }} {{ r" + std::to_string(i - 1) + ".code }}";
      text += "\"\n";
      if (i % 7 == 6) text += "    needs: [s" + std::to_string(i - 1) + ", s" + std::to_string(i / 3) + "]\n";
    }
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(good(text).steps.size(), static_cast<std::size_t>(count));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  // Of several tries the fastest, since a busy machine only ever adds time.
  double small = seconds(200);
  double large = seconds(2000);
  for (int i = 0; i < 4 && large >= 30 * small; ++i) {
    small = std::min(small, seconds(200));
    large = std::min(large, seconds(2000));
  }
  EXPECT_LT(large, 30 * small);
}

TEST(Playbook, ManyMistakesTakeLinearTimeToo) {
  std::string text = kTop;
  for (int i = 0; i < 2000; ++i) {
    text += "  - {id: s" + std::to_string(i) + ", uses: comand, needs: [x" + std::to_string(i) + "], wen: 1}\n";
  }
  const auto playbook = parse(text);
  ASSERT_FALSE(playbook);
  EXPECT_EQ(playbook.error().size(), 6000u);
}

}  // namespace
}  // namespace millwright

#include "tests/unit/engine/kinds.hpp"

#include <fmt/format.h>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright::testing {

namespace {

InputSpec input(const std::string& name, Value otherwise = Value("")) {
  InputSpec spec;
  spec.name = name;
  spec.type = otherwise.is_boolean()          ? ValueType::boolean
              : otherwise.is_number_integer() ? ValueType::integer
                                              : ValueType::string;
  spec.default_value = std::move(otherwise);
  return spec;
}

Signature signature_of(const std::string& kind, std::vector<InputSpec> inputs, std::vector<std::string> outputs = {}) {
  Signature signature;
  signature.kind = kind;
  signature.summary = kind;
  signature.inputs = std::move(inputs);
  for (const std::string& name : outputs) signature.outputs.push_back({name, ValueType::any, name});
  return signature;
}

// Saves the file or its absence, and puts that back unless somebody else changed what the run had written.
Action write_action(const std::string& path, const std::string& text) {
  const std::string file = shell_quote(path);
  Action action;
  action.title = "write " + path;
  action.undo_title = "put " + path + " back";
  action.files.push_back({path, std::make_shared<const std::string>(text), {}, "0644", {}, {}});
  action.save = "if [ -e " + file + " ]; then cp -p " + file + " \"$MW_SAVE/old\"; fi; : >\"$MW_SAVE/saved\"\n";
  action.undo =
      "F=" + file + "\n[ -e \"$MW_SAVE/saved\" ] || exit 0\nsum=\"$(sha256sum <\"$F\" 2>/dev/null || echo gone)\"\n" +
      "old=\"$(sha256sum <\"$MW_SAVE/old\" 2>/dev/null || echo gone)\"\n" + "[ \"$sum\" != \"$old\" ] || exit 0\n" +
      "[ \"${sum%% *}\" = " + sha256_hex(text) + " ] || { echo \"$F was changed since\" >&2; exit 65; }\n" +
      "if [ -e \"$MW_SAVE/old\" ]; then cp -p \"$MW_SAVE/old\" \"$F.back\" && mv -f \"$F.back\" \"$F\"; else rm -f "
      "\"$F\"; fi\n";
  return action;
}

class Note : public StepKind {
 public:
  const Signature& signature() const override { return signature_; }
  std::vector<Question> ask(const Inputs& inputs) const override {
    return {{"text", "cat " + shell_quote(inputs.string("path")) + " 2>/dev/null"}};
  }
  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override {
    Change change;
    const std::string path = inputs.string("path");
    const std::string text = inputs.string("text");
    if (answers.at("text").ok() && answers.at("text").out == text) {
      change.summary = "as wanted";
      change.outputs = {{"path", path}, {"text", text}};
      return change;
    }
    if (answers.at("text").out == "hands off") return fail(ErrorKind::refused, path + " says hands off");
    change.summary = path + " -> " + text;
    change.diff = "- " + answers.text("text") + "\n+ " + text + "\n";
    change.actions.push_back(write_action(path, text));
    return change;
  }
  std::vector<Expectation> expect(const Inputs& inputs, const Answers&, const Change&) const override {
    if (!inputs.boolean("expects")) return {};
    return {{"text", {inputs.string("text")}}};
  }

 private:
  const Signature signature_ =
      signature_of("note", {input("path"), input("text"), input("expects", true)}, {"path", "text"});
};

class Say : public StepKind {
 public:
  const Signature& signature() const override { return signature_; }
  std::vector<Question> ask(const Inputs&) const override { return {}; }
  Result<Change> plan(const Inputs& inputs, const Answers&) const override {
    Change change;
    change.verification = Verification::exit_status;
    change.summary = "said " + inputs.string("text");
    Action action;
    action.title = "say " + inputs.string("text");
    action.script =
        fmt::format("echo {0} >>{1}\necho {0}\n", shell_quote(inputs.string("text")), shell_quote(inputs.string("to")));
    action.undo = inputs.string("undo");
    action.undo_title = action.undo.empty() ? "" : "unsay";
    change.actions.push_back(std::move(action));
    return change;
  }
  Result<Value> outputs(const Inputs&, const Answers&, const std::vector<ActionResult>& results) const override {
    return Value{{"said", results.empty() ? "" : results.front().answer.out}};
  }

 private:
  const Signature signature_ = signature_of("say", {input("to"), input("text"), input("undo")}, {"said"});
};

class Box : public StepKind {
 public:
  Box() { signature_.provides_node = true; }
  const Signature& signature() const override { return signature_; }
  std::vector<Question> ask(const Inputs& inputs) const override {
    return {{"there", "[ -d " + shell_quote(inputs.string("path")) + " ]"}};
  }
  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override {
    const std::string path = inputs.string("path");
    Change change;
    // As the real one: how to get in is known before there is anything to get into.
    change.outputs = {{"node", {{"backend", "lab"}, {"id", path}}}};
    if (answers.at("there").ok()) return change;
    Action action;
    action.title = "make box " + path;
    action.script = "mkdir " + shell_quote(path);
    action.undo = "rm -rf " + shell_quote(path);
    action.undo_title = "remove box " + path;
    change.actions.push_back(std::move(action));
    return change;
  }

 private:
  Signature signature_ = signature_of("box", {input("path")}, {"node"});
};

class Break : public StepKind {
 public:
  const Signature& signature() const override { return signature_; }
  std::vector<Question> ask(const Inputs&) const override { return {{"x", "echo x"}}; }
  Result<Change> plan(const Inputs& inputs, const Answers&) const override {
    Change change;
    Action action;
    action.title = "break";
    action.script = fmt::format("echo half >{0}\necho it broke >&2\nexit {1}\n", shell_quote(inputs.string("path")),
                                inputs.integer("status"));
    action.undo = "rm -f " + shell_quote(inputs.string("path"));
    action.undo_title = "mend";
    change.actions.push_back(std::move(action));
    return change;
  }

 private:
  const Signature signature_ = signature_of("break", {input("path"), input("status", 3)});
};

class Stubborn : public StepKind {
 public:
  const Signature& signature() const override { return signature_; }
  std::vector<Question> ask(const Inputs&) const override { return {{"x", "echo x"}}; }
  Result<Change> plan(const Inputs&, const Answers&) const override {
    Change change;
    change.summary = "not yet";
    Action action;
    action.title = "try";
    action.script = ":";
    action.undo = ":";
    change.actions.push_back(std::move(action));
    return change;
  }

 private:
  const Signature signature_ = signature_of("stubborn", {input("path")});
};

class Release : public ActiveStep {
 public:
  const Signature& signature() const override { return signature_; }
  std::vector<Error> check(const Inputs& inputs) const override {
    if (!inputs.has("version") || inputs.string("version") != "nonsense") return {};
    Error error = make_error(ErrorKind::invalid, "'" + inputs.string("version") + "' is no version");
    error.detail = "version";
    return {error};
  }
  Result<StepOutcome> run(StepContext& context) const override {
    const std::string path = context.inputs().string("path");
    const std::string version = context.inputs().string("version");
    Result<Answer> old = context.node().run({"cat " + shell_quote(path) + " 2>/dev/null || true", {}, Seconds(10), {}});
    if (!old) return fail(old.error());
    const Value there = {{"title", old->out}, {"outputs", {{"endpoint", "http://127.0.0.1:1/" + old->out}}}};
    context.remember("replaces", old->out.empty() ? Value() : there);
    if (context.inputs().string("fails_with") == version) {
      const Result<Answer> acted = context.act(write_action(path, version));
      if (!acted) return fail(acted.error());
      return fail(make_error(ErrorKind::failed_test, version + " does not start").with_class("does_not_start"));
    }
    if (old->out == version) return StepOutcome{StepState::ok, version, Value::object(), {}};
    const Result<Answer> acted = context.act(write_action(path, version));
    if (!acted) return fail(acted.error());
    return StepOutcome{StepState::changed, version, {{"endpoint", "http://127.0.0.1:1/" + version}}, {}};
  }

 private:
  const Signature signature_ =
      signature_of("release", {input("path"), input("version"), input("fails_with")}, {"replaces", "endpoint"});
};

class Smoke : public ActiveStep {
 public:
  const Signature& signature() const override { return signature_; }
  Result<StepOutcome> run(StepContext& context) const override {
    Result<Answer> read =
        context.node().run({"cat " + shell_quote(context.inputs().string("path")), {}, Seconds(10), {}});
    if (!read) return fail(read.error());
    context.keep("answer.txt", read->out);
    Verdict verdict;
    verdict.kind = starts_with(read->out, "good") ? VerdictKind::pass : VerdictKind::fail;
    if (read->out == "unclear") verdict.kind = VerdictKind::inconclusive;
    if (verdict.kind == VerdictKind::fail) verdict.symptom_class = read->out;
    verdict.sentence = "it says " + read->out;
    return StepOutcome{StepState::ok, verdict.sentence, Value::object(), verdict};
  }

 private:
  const Signature signature_ = [] {
    Signature signature = signature_of("smoke", {input("path")});
    signature.only_looks = true;
    return signature;
  }();
};

class Sleepy : public ActiveStep {
 public:
  const Signature& signature() const override { return signature_; }
  Result<StepOutcome> run(StepContext& context) const override {
    Result<Answer> slept = context.node().run(
        {fmt::format("sleep {}", context.inputs().integer("seconds")), {}, std::chrono::minutes(2), {}});
    if (!slept) return fail(slept.error());
    return StepOutcome{};
  }

 private:
  const Signature signature_ = signature_of("sleepy", {input("seconds", 1)});
};

// Writes when it begins and ends; in between it waits until another has begun, until a file is there, or just a moment.
class Span : public StepKind {
 public:
  const Signature& signature() const override { return signature_; }
  std::vector<Question> ask(const Inputs& inputs) const override {
    return {{"ended", "grep -cx " + shell_quote("end " + inputs.string("name")) + " " +
                          shell_quote(inputs.string("log")) + " 2>/dev/null"}};
  }
  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override {
    Change change;
    if (answers.at("ended").ok()) return change;
    const std::string log = shell_quote(inputs.string("log"));
    const std::string meets = inputs.string("meets");
    const std::string awaits = inputs.string("awaits");
    Action action;
    action.title = "span " + inputs.string("name");
    action.script = "echo " + shell_quote("begin " + inputs.string("name")) + " >>" + log + "\n";
    const std::string met = !meets.empty()    ? "grep -qx " + shell_quote("begin " + meets) + " " + log
                            : !awaits.empty() ? "[ -e " + shell_quote(awaits) + " ]"
                                              : "";
    action.script += met.empty()
                         ? "sleep 0.3\n"
                         : "i=0\nuntil " + met + "; do i=$((i + 1)); [ $i -lt 300 ] || exit 4; sleep 0.1; done\n";
    action.script += "echo " + shell_quote("end " + inputs.string("name")) + " >>" + log + "\n";
    action.undo = "grep -vx -e " + shell_quote("begin " + inputs.string("name")) + " -e " +
                  shell_quote("end " + inputs.string("name")) + " " + log + " >" + log + ".new || :\nmv " + log +
                  ".new " + log + "\n";
    action.undo_title = "forget " + inputs.string("name");
    action.marks.destructive = inputs.boolean("destructive");
    change.actions.push_back(std::move(action));
    return change;
  }
  std::vector<Expectation> expect(const Inputs&, const Answers&, const Change&) const override {
    return {{"ended", {"1\n"}}};
  }

 private:
  const Signature signature_ =
      signature_of("span", {input("log"), input("name"), input("meets"), input("awaits"), input("destructive", false)});
};

}  // namespace

void register_test_kinds(StepRegistry& registry) {
  registry.add(std::make_unique<Note>());
  registry.add(std::make_unique<Say>());
  registry.add(std::make_unique<Box>());
  registry.add(std::make_unique<Break>());
  registry.add(std::make_unique<Stubborn>());
  registry.add(std::make_unique<Release>());
  registry.add(std::make_unique<Smoke>());
  registry.add(std::make_unique<Sleepy>());
  registry.add(std::make_unique<Span>());
}

}  // namespace millwright::testing

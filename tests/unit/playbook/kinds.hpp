// A few step kinds to read playbooks against: enough of each sort of input for every rule of the language.
#pragma once

#include "steps/contract/step.hpp"

namespace millwright::testing {

class TestKind final : public StepKind {
 public:
  explicit TestKind(Signature signature) : signature_(std::move(signature)) {}
  const Signature& signature() const override { return signature_; }
  std::vector<Question> ask(const Inputs&) const override { return {}; }
  Result<Change> plan(const Inputs&, const Answers&) const override { return Change{}; }
  // As core's file: exactly one source of content, an absolute path.
  std::vector<Error> check(const Inputs& inputs) const override {
    std::vector<Error> errors;
    if (signature_.kind != "file") return errors;
    if (inputs.has("path") && inputs.string("path").front() != '/') {
      errors.push_back(make_error(ErrorKind::invalid, "'path' must be absolute"));
      errors.back().detail = "path";
    }
    return errors;
  }

 private:
  Signature signature_;
};

class TestActive final : public ActiveStep {
 public:
  explicit TestActive(Signature signature) : signature_(std::move(signature)) {}
  const Signature& signature() const override { return signature_; }
  Result<StepOutcome> run(StepContext&) const override { return StepOutcome{}; }

 private:
  Signature signature_;
};

inline InputSpec input(std::string name, ValueType type, std::string doc, Need need = Need::optional) {
  InputSpec spec;
  spec.name = std::move(name);
  spec.type = type;
  spec.doc = std::move(doc);
  spec.need = need;
  return spec;
}

inline Signature file_signature() {
  Signature file;
  file.kind = "file";
  file.summary = "A file, folder or link, as wanted.";
  file.inputs = {
      input("path", ValueType::string, "Where it is.", Need::required),
      input("content", ValueType::string, "The text of it."), input("mode", ValueType::mode, "Permissions, octal."),
      input("state", ValueType::string, "What there shall be."), input("owner", ValueType::mapping, "Who owns it.")};
  file.inputs[0].known_elsewhere_as = {"dest"};
  file.inputs[2].default_value = "0644";
  file.inputs[3].one_of = {"file", "folder", "absent"};
  file.inputs[4].fields = {input("user", ValueType::string, "Name.", Need::required),
                           input("group", ValueType::string, "Name.")};
  file.outputs = {{"path", ValueType::string, "Where it is."}, {"sha256", ValueType::string, "Of its bytes."}};
  return file;
}

inline Signature template_signature() {
  Signature kind;
  kind.kind = "template";
  kind.summary = "A file from a template.";
  kind.inputs = {input("path", ValueType::string, "Where it goes.", Need::required),
                 input("source", ValueType::string, "The template.", Need::required),
                 input("content", ValueType::string, "Its text.")};
  kind.inputs[1].controller_file = true;
  kind.inputs[1].rendered_into = "content";
  return kind;
}

inline void fill(StepRegistry& registry) {
  registry.add(std::make_unique<TestKind>(file_signature()));
  registry.add(std::make_unique<TestKind>(template_signature()));
  Signature package;
  package.kind = "package";
  package.summary = "Packages.";
  package.positional = "name";
  package.inputs = {
      input("name", ValueType::list, "Which.", Need::required), input("retries", ValueType::integer, "How often."),
      input("update", ValueType::boolean, "Read the lists first."), input("wait", ValueType::duration, "At most.")};
  registry.add(std::make_unique<TestKind>(package));
  Signature command;
  command.kind = "command";
  command.summary = "A command.";
  command.positional = "run";
  command.inputs = {input("run", ValueType::string, "What.", Need::required),
                    input("env", ValueType::mapping, "With.")};
  command.outputs = {{"stdout", ValueType::string, "What it said."}, {"code", ValueType::integer, "How it ended."}};
  registry.add(std::make_unique<TestKind>(command));
  Signature container;
  container.kind = "container";
  container.summary = "A container.";
  container.inputs = {input("name", ValueType::string, "Its name.", Need::required)};
  container.outputs = {{"node", ValueType::string, "To run in."}, {"ip", ValueType::string, "Its address."}};
  container.provides_node = true;
  registry.add(std::make_unique<TestKind>(container));
  Signature bind;
  bind.kind = "gpu.bind";
  bind.summary = "GPUs to a driver.";
  bind.inputs = {input("select", ValueType::string, "Which."), input("driver", ValueType::string, "To what."),
                 input("persist", ValueType::boolean, "Over reboots.")};
  registry.add(std::make_unique<TestKind>(bind));
  Signature smoke;
  smoke.kind = "smoke";
  smoke.summary = "Asks a server.";
  smoke.inputs = {input("level", ValueType::string, "How much.")};
  smoke.inputs[0].one_of = {"quick", "standard", "thorough"};
  registry.add(std::make_unique<TestActive>(smoke));
}

inline const StepRegistry& registry() {
  static const StepRegistry& filled = []() -> const StepRegistry& {
    static StepRegistry made;
    fill(made);
    return made;
  }();
  return filled;
}

}  // namespace millwright::testing

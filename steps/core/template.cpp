#include "steps/core/template.hpp"

#include "steps/core/controller_file.hpp"
#include "steps/core/file.hpp"
#include "steps/core/file_inputs.hpp"
#include "steps/core/run_parts.hpp"

namespace millwright {

namespace {

Signature make_signature() {
  Signature s;
  s.kind = "template";
  s.summary = "A file whose text is rendered from a template.";
  s.doc =
      "The text of `source` may hold {{ expressions }} over everything that the step could name itself: inputs, vars, "
      "outputs of earlier steps, the host. Unknown names are found by lint, before anything is contacted. There are no "
      "statements; lists are laid out with the `join` filter.\n\n"
      "For the rest it is the step kind `file`: diff, atomic replacement, undo that puts back what was there.";
  s.inputs = {core::path_input(),
              {.name = "source",
               .doc = "The template, a file on the controller; a relative path starts at the playbook's folder.",
               .controller_file = true,
               .rendered_into = "content",
               .known_elsewhere_as = {"src", "template"}},
              {.name = "content", .doc = "The template itself, instead of `source`."}};
  core::add_placing_inputs(s.inputs);
  s.outputs = core::path_outputs();
  s.example =
      "- uses: template\n"
      "  with:\n"
      "    source: templates/llm.conf.in\n"
      "    path: /etc/llm.conf\n"
      "    mode: \"0640\"\n";
  return s;
}

Inputs as_file(const Inputs& inputs) {
  Value values = inputs.all();
  values.erase("source");
  values["state"] = "file";
  return Inputs(std::move(values));
}

const FileStep kFile;

}  // namespace

const Signature& TemplateStep::signature() const {
  static const Signature signature = make_signature();
  return signature;
}

std::vector<Error> TemplateStep::check(const Inputs& inputs) const {
  std::vector<Error> errors = kFile.check(as_file(inputs));
  if (!inputs.has("source")) return errors;
  const auto readable = core::digest_controller_file(inputs.string("source"));
  if (!readable) errors.push_back(core::input_error("source", readable.error().message));
  return errors;
}

std::vector<Question> TemplateStep::ask(const Inputs& inputs) const {
  // Rendered or not, the questions are the same, so that they can go out ahead.
  Value values = as_file(inputs).all();
  if (!values.contains("content")) values["content"] = "";
  return kFile.ask(Inputs(std::move(values)));
}

Result<Change> TemplateStep::plan(const Inputs& inputs, const Answers& answers) const {
  if (!inputs.has("content")) {
    return fail(make_error(ErrorKind::invalid, "a template needs 'source' (a file on the controller) or 'content'"));
  }
  return kFile.plan(as_file(inputs), answers);
}

std::vector<Expectation> TemplateStep::expect(const Inputs& inputs, const Answers& answers,
                                              const Change& change) const {
  return kFile.expect(as_file(inputs), answers, change);
}

}  // namespace millwright

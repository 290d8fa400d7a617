#include "tests/unit/steps_core/line_step.hpp"

#include <fmt/format.h>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {

// 1. The signature: what it takes, gives and is for.
const Signature& LineStep::signature() const {
  static const Signature signature = [] {
    Signature s;
    s.kind = "line";
    s.summary = "A line is in a file.";
    s.doc = "Adds the line at the end of the file unless it is there. Undo takes it out again.";
    s.inputs = {{.name = "path", .need = Need::required, .doc = "The file.", .known_elsewhere_as = {"dest"}},
                {.name = "line", .need = Need::required, .doc = "The line, whole."}};
    s.outputs = {{.name = "present", .type = ValueType::boolean, .doc = "Whether the line is there."}};
    s.example = "- uses: line\n  with: {path: /etc/modules, line: vfio-pci}\n";
    return s;
  }();
  return signature;
}

// 2. The question: read-only POSIX sh. Every value goes through shell_quote.
std::vector<Question> LineStep::ask(const Inputs& inputs) const {
  return {{.key = "line",
           .script = fmt::format("p={}\n"
                                 "if [ ! -f \"$p\" ]; then echo no file; exit 0; fi\n"
                                 "if grep -qxF -e {} -- \"$p\"; then echo there; else echo missing; fi\n",
                                 shell_quote(inputs.string("path")), shell_quote(inputs.string("line")))}};
}

// 3. The plan: compare, and say what to do and how to take it back.
Result<Change> LineStep::plan(const Inputs& inputs, const Answers& answers) const {
  const std::string path = inputs.string("path");
  const std::string line = inputs.string("line");
  const std::string state = answers.text("line");
  if (state == "no file") {
    return fail(make_error(ErrorKind::refused, path + " is no file").with_hint("make it with a `file` step first"));
  }
  Change change;
  change.outputs = {{"present", state == "there"}};
  if (state == "there") {
    change.summary = "the line is there";
    return change;
  }
  const std::string head = fmt::format("p={}\nline={}\n", shell_quote(path), shell_quote(line));
  Action action;
  action.title = "add a line to " + path;
  action.save = head + R"sh(cp -p -- "$p" "$MW_SAVE/old"
{
  cat -- "$p"
  [ -z "$(tail -c 1 -- "$p")" ] || echo
  printf '%s\n' "$line"
} >"$MW_SAVE/new.part"
mv -- "$MW_SAVE/new.part" "$MW_SAVE/new"
)sh";
  action.script = head + R"sh([ -z "$(tail -c 1 -- "$p")" ] || echo >>"$p"
printf '%s\n' "$line" >>"$p"
)sh";
  action.undo = head + R"sh([ -f "$MW_SAVE/new" ] || exit 0
cmp -s -- "$p" "$MW_SAVE/old" && exit 0
cmp -s -- "$p" "$MW_SAVE/new" || {
  echo "$p was changed by someone else since, so it stays" >&2
  exit 65
}
cp -p -- "$MW_SAVE/old" "$p.millwright-restoring"
mv -- "$p.millwright-restoring" "$p"
)sh";
  action.undo_title = "take the line out of " + path;
  change.summary = "a line added to " + path;
  change.diff = "+ " + line + "\n";
  change.actions.push_back(std::move(action));
  return change;
}

// 4. What the question will say then. Optional: without it the next step waits until this one has been verified.
std::vector<Expectation> LineStep::expect(const Inputs&, const Answers&, const Change&) const {
  return {{"line", {"there\n"}}};
}

}  // namespace millwright

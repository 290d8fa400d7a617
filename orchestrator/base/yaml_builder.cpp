#include "orchestrator/base/yaml_builder.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/yaml_raw.hpp"

namespace millwright::yaml {
namespace {

// Leaves yaml-cpp's parser from inside an event; never leaves this file.
struct Stop {
  Error error;
};

struct Measure {
  std::size_t nodes = 1;
  std::size_t bytes = 0;
  std::size_t depth = 1;

  void add_child(const Measure& child) {
    nodes += child.nodes;
    bytes += child.bytes;
    depth = std::max(depth, child.depth + 1);
  }
};

struct Frame {
  YamlNode node;
  YAML::anchor_t anchor = 0;
  Measure measure;
  bool flow = false;
  std::optional<YamlNode> key;  // mappings: read, its value not yet
  bool drop_value = false;      // the key was no good
  std::unordered_map<std::string, SourceMark> keys;
};

struct Anchored {
  YamlNode node;
  Measure measure;
};

class Builder final : public YAML::EventHandler {
 public:
  Builder(const SourceText& source, const YamlLimits& limits) : source_(source), limits_(limits) {}

  void OnDocumentStart(const YAML::Mark& mark) override;
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override;
  void OnSequenceEnd() override { close_frame(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override;
  void OnMapEnd() override;

  Error syntax_error(const YAML::Exception& exception) const;
  std::vector<Error> take_errors() { return std::move(errors_); }
  YamlNode take_document() { return std::move(document_); }

 private:
  std::size_t offset(const YAML::Mark& mark) const { return source_.offset(mark.line + 1, mark.column + 1); }
  Error error_at(SourceMark mark, std::string message, std::string hint = "") const {
    return make_error(ErrorKind::invalid, std::move(message)).at(std::move(mark)).with_hint(std::move(hint));
  }
  void check_indentation(std::size_t at) const;
  void count(const Measure& measure, const SourceMark& mark);
  void set_tag(YamlNode& node, const std::string& tag);
  void open_frame(YamlKind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, bool flow);
  void close_frame();
  void attach(YamlNode node, YAML::anchor_t anchor, const Measure& measure);
  void set_key(Frame& frame, YamlNode node);
  void merge(Frame& frame);
  bool add_merged(std::vector<YamlEntry>& out, Frame& frame, const YamlNode& from);

  const SourceText& source_;
  const YamlLimits& limits_;
  std::vector<Frame> frames_;
  std::unordered_map<YAML::anchor_t, Anchored> anchors_;
  YamlNode document_;
  std::vector<Error> errors_;
  std::size_t nodes_ = 0;
  std::size_t bytes_ = 0;
  std::size_t last_end_ = 0;                   // one past the last scalar's bytes
  std::optional<SourceMark> last_long_quote_;  // start of the last scalar, if that is quoted and spans lines
  bool started_ = false;
};

void Builder::OnDocumentStart(const YAML::Mark& mark) {
  if (started_) {
    const std::size_t at = offset(mark);
    const std::size_t from = std::min(last_end_, at);
    const bool separated = source_.text().substr(from, at + 3 - from).find("---") != std::string_view::npos;
    throw Stop{separated ? error_at(source_.mark(at), "a second document starts here", "one document a file")
                         : error_at(source_.mark(at), "this is outside of what the document began with",
                                    "check the indentation")};
  }
  started_ = true;
}

void Builder::check_indentation(std::size_t at) const {
  const bool in_flow = std::any_of(frames_.begin(), frames_.end(), [](const Frame& frame) { return frame.flow; });
  const std::size_t tab = in_flow ? std::string_view::npos : indentation_tab(source_, at);
  if (tab != std::string_view::npos) {
    throw Stop{error_at(source_.mark(tab), "a tab cannot indent YAML", "use spaces")};
  }
}

void Builder::count(const Measure& measure, const SourceMark& mark) {
  nodes_ += measure.nodes;
  bytes_ += measure.bytes;
  if (nodes_ > limits_.max_nodes) {
    throw Stop{error_at(mark, fmt::format("too many nodes: more than {} after aliases are expanded", limits_.max_nodes),
                        "split the file")};
  }
  if (bytes_ > 2 * limits_.max_bytes) {
    throw Stop{error_at(
        mark, fmt::format("too large after aliases are expanded: more than {} bytes of text", 2 * limits_.max_bytes),
        "split the file")};
  }
  if (frames_.size() + measure.depth > limits_.max_depth) {
    throw Stop{error_at(mark, fmt::format("too deep: more than {} levels", limits_.max_depth), "flatten it")};
  }
}

void Builder::set_tag(YamlNode& node, const std::string& tag) {
  constexpr std::string_view core = "tag:yaml.org,2002:";
  if (tag.empty() || tag == "?") return;
  if (tag == "!") {
    node.quoted = node.kind == YamlKind::scalar;
    return;
  }
  if (!starts_with(tag, core)) {
    if (tag[0] == '!') {
      node.tag = tag;
    } else {
      errors_.push_back(error_at(node.mark, fmt::format("tag '{}' is not known", tag)));
    }
    return;
  }
  const std::string name = tag.substr(core.size());
  if (name == "str" && node.kind == YamlKind::scalar) {
    node.quoted = true;
    return;
  }
  node.quoted = false;
  const Value value = node.kind == YamlKind::scalar ? node.to_value() : Value();
  const bool fits =
      (name == "map" && node.kind == YamlKind::mapping) || (name == "seq" && node.kind == YamlKind::sequence) ||
      (name == "int" && value.is_number_integer()) || (name == "float" && value.is_number()) ||
      (name == "bool" && value.is_boolean()) || (name == "null" && node.kind == YamlKind::scalar && value.is_null());
  if (!fits) errors_.push_back(error_at(node.mark, fmt::format("tag !!{} does not fit this value", name)));
}

void Builder::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  const std::size_t at = offset(mark);
  YamlNode node;
  const std::string_view raw = source_.text().substr(at, 4);
  const bool written = raw.substr(0, 1) == "~" || raw == "null" || raw == "Null" || raw == "NULL";
  if (written) {
    node.mark = source_.mark(at, raw[0] == '~' ? 1 : 4);
    check_indentation(at);
  } else if (!frames_.empty() && frames_.back().key) {
    node.mark = frames_.back().key->mark;  // yaml-cpp names the token after the missing value
  } else {
    node.mark = source_.mark(at);
  }
  const Measure measure;
  count(measure, node.mark);
  attach(std::move(node), anchor, measure);
}

void Builder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  const std::size_t at = offset(mark);
  check_indentation(at);
  const std::string_view text = source_.text();
  const std::size_t end = std::min(text.find_first_of(" \t\r\n,]}", at), text.size());
  const SourceMark place = source_.mark(at, end - at);
  const auto found = anchors_.find(anchor);
  if (found == anchors_.end()) throw Stop{error_at(place, "this alias stands inside of what it names")};
  count(found->second.measure, place);
  last_end_ = end;
  attach(found->second.node, 0, found->second.measure);
}

void Builder::OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       const std::string& value) {
  const std::size_t at = offset(mark);
  const RawScalar raw = scan_scalar(source_.text(), at, value);
  check_indentation(at);
  if (!raw.closed) throw Stop{error_at(source_.mark(raw.start), "this quote is never closed")};
  YamlNode node;
  node.kind = YamlKind::scalar;
  node.mark = source_.mark(at, raw.end > at ? raw.end - at : 1);
  node.text = value;
  node.quoted = raw.style != RawStyle::plain;
  if (raw.style == RawStyle::block && source_.text()[raw.start] == '|') {
    node.lines = block_lines(source_, raw.start, split_lines(value).size());
  }
  set_tag(node, tag);
  last_end_ = raw.close;
  last_long_quote_.reset();
  if (raw.style == RawStyle::quoted && raw.close > raw.end) last_long_quote_ = node.mark;
  const Measure measure{1, value.size() + tag.size(), 1};
  count(measure, node.mark);
  attach(std::move(node), anchor, measure);
}

void Builder::open_frame(YamlKind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         bool flow) {
  const std::size_t at = offset(mark);
  check_indentation(at);
  Frame frame;
  frame.node.kind = kind;
  frame.node.mark = source_.mark(at);
  frame.anchor = anchor;
  frame.flow = flow;
  set_tag(frame.node, tag);
  count(Measure{}, frame.node.mark);
  frames_.push_back(std::move(frame));
}

void Builder::OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                              YAML::EmitterStyle::value style) {
  open_frame(YamlKind::sequence, mark, tag, anchor, style == YAML::EmitterStyle::Flow);
}

void Builder::OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value style) {
  open_frame(YamlKind::mapping, mark, tag, anchor, style == YAML::EmitterStyle::Flow);
}

void Builder::OnMapEnd() {
  merge(frames_.back());
  close_frame();
}

void Builder::close_frame() {
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  attach(std::move(frame.node), frame.anchor, frame.measure);
}

void Builder::attach(YamlNode node, YAML::anchor_t anchor, const Measure& measure) {
  if (anchor != 0) {
    count(measure, node.mark);  // the copy kept for aliases is paid for too
    anchors_[anchor] = Anchored{node, measure};
  }
  if (frames_.empty()) {
    document_ = std::move(node);
    return;
  }
  Frame& frame = frames_.back();
  frame.measure.add_child(measure);
  if (frame.node.kind == YamlKind::sequence) {
    frame.node.items.push_back(std::move(node));
  } else if (!frame.key) {
    set_key(frame, std::move(node));
  } else {
    if (!frame.drop_value) frame.node.entries.emplace_back(std::move(*frame.key), std::move(node));
    frame.key.reset();
    frame.drop_value = false;
  }
}

void Builder::set_key(Frame& frame, YamlNode node) {
  if (node.kind == YamlKind::scalar) {
    const auto [first, is_new] = frame.keys.emplace(node.text, node.mark);
    if (!is_new) {
      errors_.push_back(error_at(node.mark, fmt::format("duplicate key '{}'", node.text),
                                 fmt::format("already given in line {}", first->second.line)));
      frame.drop_value = true;
    }
  } else {
    frame.drop_value = true;
    const std::size_t at = source_.offset(node.mark.line, node.mark.column);
    if (node.kind == YamlKind::mapping && at > 0 && source_.text().substr(at - 1, 2) == "{{") {
      errors_.push_back(error_at(source_.mark(at - 1, 2),
                                 "an expression must be in quotes, or YAML takes it for a mapping",
                                 "write \"{{ ... }}\""));
    } else {
      const bool empty = node.kind == YamlKind::null;
      errors_.push_back(error_at(node.mark, empty ? "a key is missing or null" : "a list or mapping cannot be a key",
                                 empty ? "quote it if the word null is meant" : "keys are plain names"));
    }
  }
  frame.key = std::move(node);
}

bool Builder::add_merged(std::vector<YamlEntry>& out, Frame& frame, const YamlNode& from) {
  if (from.kind != YamlKind::mapping) return false;
  for (const auto& entry : from.entries) {
    if (frame.keys.emplace(entry.first.text, entry.first.mark).second) out.push_back(entry);
  }
  return true;
}

void Builder::merge(Frame& frame) {
  auto& entries = frame.node.entries;
  const auto is_merge = [](const auto& entry) { return entry.first.text == "<<" && !entry.first.quoted; };
  const auto at = std::find_if(entries.begin(), entries.end(), is_merge);
  if (at == entries.end()) return;
  const YamlNode from = std::move(at->second);
  const SourceMark mark = at->first.mark;
  std::vector<YamlEntry> merged;
  bool good = true;
  if (from.kind == YamlKind::sequence) {
    for (const YamlNode& item : from.items) good = add_merged(merged, frame, item) && good;
  } else {
    good = add_merged(merged, frame, from);
  }
  if (!good)
    errors_.push_back(error_at(mark, "'<<' merges mappings only", "give it an alias of a mapping, or a list of them"));
  const auto place = entries.erase(at);
  entries.insert(place, std::make_move_iterator(merged.begin()), std::make_move_iterator(merged.end()));
}

Error Builder::syntax_error(const YAML::Exception& exception) const {
  const std::size_t at = offset(exception.mark);
  const std::string_view text = source_.text();
  const std::size_t line_start = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  const std::size_t content = std::min(text.find_first_not_of(" \t", line_start), text.size());
  const std::size_t tab = indentation_tab(source_, content);
  if (tab != std::string_view::npos) return error_at(source_.mark(tab), "a tab cannot indent YAML", "use spaces");
  if (starts_with(exception.msg, "illegal EOF in scalar") || starts_with(exception.msg, "illegal document indicator")) {
    const std::size_t quote = opening_quote(text, last_end_);
    return error_at(source_.mark(quote == std::string_view::npos ? at : quote), "this quote is never closed");
  }
  if (starts_with(exception.msg, "end of map flow") || starts_with(exception.msg, "end of sequence flow")) {
    for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
      const SourceMark& mark = frame->node.mark;
      const std::string_view open = text.substr(source_.offset(mark.line, mark.column), 1);
      if (open == "[" || open == "{") {
        return error_at(mark, fmt::format("'{}' is not closed, or something before its end is misplaced", open),
                        "texts with , : [ ] { } in them must be quoted");
      }
    }
  }
  Explanation explained = explain_syntax(exception.msg, at < text.size() ? text[at] : ' ');
  if (last_long_quote_) {
    explained.hint = fmt::format("a quote opened in line {} ends just before; is it closed where you meant?",
                                 last_long_quote_->line);
  }
  return error_at(source_.mark(at), std::move(explained.message), std::move(explained.hint));
}

}  // namespace

tl::expected<YamlNode, std::vector<Error>> build_document(std::string_view text, const std::string& file,
                                                          const YamlLimits& limits) {
  if (starts_with(text, "\xEF\xBB\xBF")) text.remove_prefix(3);
  if (std::vector<Error> errors = check_bytes(text, file, limits); !errors.empty()) {
    return tl::unexpected(std::move(errors));
  }
  const SourceText source(text, file);
  Builder builder(source, limits);
  std::vector<Error> errors;
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop& stop) {
    errors.push_back(stop.error);
  } catch (const YAML::Exception& exception) {
    errors.push_back(builder.syntax_error(exception));
  }
  std::vector<Error> found = builder.take_errors();
  errors.insert(errors.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  if (errors.empty()) {
    YamlNode document = builder.take_document();
    if (document.mark.line == 0) document.mark = source.mark(0);
    return document;
  }
  std::stable_sort(errors.begin(), errors.end(), [](const Error& a, const Error& b) {
    return std::pair(a.where->line, a.where->column) < std::pair(b.where->line, b.where->column);
  });
  return tl::unexpected(std::move(errors));
}

}  // namespace millwright::yaml

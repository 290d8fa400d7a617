#include "steps/server/planner/log_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/line_pattern.hpp"

namespace millwright::planner {
namespace {

constexpr std::size_t kLongestLine = 8192;

// One row of the data with its expression ready.
struct Row {
  std::string has;
  std::optional<LinePattern> match;
  std::vector<std::string> names;
  Value data;
};

Result<std::vector<Row>> rows_of(const Value& engine, const char* list) {
  std::vector<Row> out;
  const auto found = engine.find(list);
  if (found == engine.end()) return out;
  for (const Value& data : *found) {
    Row row{data.at("has").get<std::string>(), {}, data.value("names", std::vector<std::string>{}), data};
    if (data.contains("match")) {
      auto pattern = LinePattern::compile(data.at("match").get<std::string>());
      if (!pattern) return fail(wrap(pattern.error(), "memory_log.yml"));
      row.match.emplace(std::move(*pattern));
    }
    out.push_back(std::move(row));
  }
  return out;
}

// The groups of a row in this line; nothing when it does not match. A row without an expression has no groups.
std::optional<std::vector<std::string>> groups_of(const Row& row, std::string_view line) {
  if (line.find(row.has) == std::string_view::npos) return {};
  if (!row.match) return std::vector<std::string>{};
  return row.match->groups(line);
}

double number_of(const std::string& text) { return std::strtod(replace_all(text, ",", "").c_str(), nullptr); }

void keep(std::map<std::string, double>& terms, const std::string& name, const std::string& how, double value) {
  const auto known = terms.find(name);
  if (known == terms.end() || how == "last") {
    terms[name] = value;
  } else if (how == "least") {
    known->second = std::min(known->second, value);
  } else if (how == "sum") {
    known->second += value;
  }
}

std::string filled(std::string sentence, const std::vector<std::string>& groups) {
  for (std::size_t group = 0; group < groups.size(); ++group)
    sentence = replace_all(sentence, fmt::format("{{{}}}", group + 1), groups[group]);
  return sentence;
}

class Reader {
 public:
  static Result<Reader> of(const Value& engine) {
    Reader out;
    auto terms = rows_of(engine, "terms");
    auto failures = rows_of(engine, "failures");
    if (!terms) return fail(terms.error());
    if (!failures) return fail(failures.error());
    out.terms_ = std::move(*terms);
    out.failures_ = std::move(*failures);
    for (const Value& milestone : engine.at("milestones"))
      out.milestones_.emplace_back(milestone.at("has").get<std::string>(), milestone.at("name").get<std::string>());
    out.begins_ = engine.value("begins", std::vector<std::string>{});
    if (engine.contains("version")) {
      auto version = rows_of(Value{{"version", Value::array({engine.at("version")})}}, "version");
      if (!version) return fail(version.error());
      out.version_ = std::move(*version);
    }
    return out;
  }

  void line(std::string_view whole, int number, LogReading& out) {
    const std::string_view text = whole.substr(0, kLongestLine);
    if (begins_anew(text, out)) {
      // A journal has every start of a unit: the last one is what there is to answer for.
      LogReading fresh;
      fresh.engine = out.engine;
      fresh.looks_like = out.looks_like;
      out = std::move(fresh);
      worst_ = static_cast<std::size_t>(-1);
    }
    for (const Row& row : terms_) {
      const auto groups = groups_of(row, text);
      if (!groups) continue;
      const auto how = row.data.at("keep").get<std::string>();
      for (std::size_t at = 0; at < row.names.size() && at < groups->size(); ++at)
        keep(out.terms, row.names[at], how, number_of((*groups)[at]));
    }
    for (const Row& row : version_) {
      if (const auto groups = groups_of(row, text); groups && !groups->empty()) out.version = groups->front();
    }
    for (std::size_t row = 0; row < failures_.size() && row < worst_; ++row) failure(row, text, number, out);
    // After the failures: an error on the line that ends a stage belongs to that stage.
    for (const auto& [has, name] : milestones_) {
      if (text.find(has) != std::string_view::npos) out.reached = name;
    }
    if (out.reached != "run_time" || out.ready) return;
    // It came up all the same; what fails from here on fails while it serves.
    out.ready = true;
    out.failure.reset();
    worst_ = static_cast<std::size_t>(-1);
  }

 private:
  bool begins_anew(std::string_view text, const LogReading& out) const {
    if (out.reached.empty() && out.terms.empty() && !out.failure) return false;
    return std::any_of(begins_.begin(), begins_.end(),
                       [&](const std::string& mark) { return text.find(mark) != std::string_view::npos; });
  }

  void failure(std::size_t at, std::string_view text, int number, LogReading& out) {
    const Row& row = failures_[at];
    const auto groups = groups_of(row, text);
    if (!groups) return;
    LogFailure found;
    found.where = row.data.at("where").get<std::string>();
    if (found.where == "by_milestone") found.where = out.reached.empty() ? "before_weights" : out.reached;
    found.symptom_class = row.data.at("class").get<std::string>();
    found.sentence = filled(row.data.at("sentence").get<std::string>(), *groups);
    found.line = std::string(trim(text)).substr(0, 400);
    found.line_number = number;
    for (std::size_t name = 0; name < row.names.size() && name < groups->size(); ++name)
      found.numbers[row.names[name]] = number_of((*groups)[name]);
    // Sizes of torch come as "96.00 MiB" or "1.50 GiB".
    for (std::size_t name = 0; name + 1 < row.names.size() && name + 1 < groups->size(); ++name) {
      if (row.names[name + 1] == row.names[name] + "_unit" && (*groups)[name + 1] == "MiB")
        found.numbers[row.names[name]] /= 1024;
    }
    out.failure = std::move(found);
    worst_ = at;
  }

  std::vector<Row> terms_, failures_, version_;
  std::vector<std::pair<std::string, std::string>> milestones_;  // what a line has, and what it is
  std::vector<std::string> begins_;
  std::size_t worst_ = static_cast<std::size_t>(-1);
};

// A Python literal from `at` on: 'text', "text", a number, None, True, {...}, [...]. Leaves `at` behind it.
std::string python_literal(std::string_view text, std::size_t& at) {
  const std::size_t from = at;
  if (at < text.size() && (text[at] == '\'' || text[at] == '"')) {
    const char quote = text[at++];
    std::string out;
    while (at < text.size() && text[at] != quote) {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      out += text[at++];
    }
    if (at < text.size()) ++at;
    return out;
  }
  int depth = 0;
  char quote = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{' || c == '<') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}' || c == '>') {
      if (depth == 0) break;
      --depth;
    } else if (c == ',' && depth == 0) {
      break;
    }
  }
  return std::string(trim(text.substr(from, at - from)));
}

}  // namespace

std::optional<double> LogReading::term(const std::string& name) const {
  if (const auto found = terms.find(name); found != terms.end()) return found->second;
  if (!ends_with(name, "_gib")) return {};
  const auto mib = terms.find(name.substr(0, name.size() - 4) + "_mib");
  if (mib != terms.end()) return mib->second / 1024;
  return {};
}

std::map<std::string, std::string> arguments_of(std::string_view line) {
  std::map<std::string, std::string> out;
  std::size_t at = std::string_view::npos;
  for (const std::string_view mark : {"server_args=ServerArgs(", "server_args={", "non-default args: {"}) {
    const std::size_t found = line.find(mark);
    if (found != std::string_view::npos) at = std::min(at, found + mark.size());
  }
  while (at < line.size() && line[at] != ')' && line[at] != '}') {
    while (at < line.size() && (line[at] == ',' || line[at] == ' ')) ++at;
    std::string name;
    if (at < line.size() && (line[at] == '\'' || line[at] == '"')) {
      name = python_literal(line, at);
    } else {
      while (at < line.size() && (std::isalnum(static_cast<unsigned char>(line[at])) != 0 || line[at] == '_'))
        name += line[at++];
    }
    while (at < line.size() && (line[at] == ' ' || line[at] == ':' || line[at] == '=')) ++at;
    if (name.empty()) break;
    const std::string value = python_literal(line, at);
    if (value != "None")
      out[replace_all(name, "_", "-")] = value == "True" ? "true" : value == "False" ? "false" : value;
  }
  return out;
}

Result<void> check_is_log(const LogReading& reading) {
  if (!reading.looks_like.empty() && reading.looks_like != reading.engine)
    return fail(
        make_error(ErrorKind::usage, fmt::format("this is a log of {}, not of {}", reading.looks_like, reading.engine))
            .with_hint("--engine " + reading.looks_like));
  const bool says = !reading.looks_like.empty() || reading.failure || !reading.terms.empty() ||
                    !reading.reached.empty() || !reading.arguments.empty();
  if (says) return {};
  return fail(make_error(ErrorKind::usage, "nothing in it is what " + reading.engine + " prints while it starts")
                  .with_hint("the whole log of a start is wanted, as journalctl -u UNIT > FILE writes it"));
}

namespace {

std::string recognised(const Value& engines, std::string_view text) {
  std::string best;
  std::size_t first = std::string_view::npos;
  for (const auto& [name, engine] : engines.items()) {
    for (const Value& mark : engine.at("recognise")) {
      const std::size_t found = text.find(mark.get_ref<const std::string&>());
      if (found < first) first = found, best = name;
    }
  }
  return best;
}

}  // namespace

Result<LogReading> read_log(const Knowledge& knowledge, std::string_view text, const std::string& engine) {
  static const Value none = Value::object();
  const Value& document = knowledge.file("memory_log");
  const auto found = document.find("engines");
  const Value& engines = found == document.end() ? none : *found;
  LogReading out;
  out.looks_like = recognised(engines, text);
  out.engine = engine.empty() ? out.looks_like : engine;
  const auto rows = engines.find(out.engine);
  if (rows == engines.end())
    return fail(make_error(ErrorKind::usage, "nothing in this log is of an engine that is known here")
                    .with_hint("say whose it is: --engine sglang@0.5.9"));
  auto reader = Reader::of(*rows);
  if (!reader) return fail(reader.error());
  int number = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const std::string_view line = text.substr(from, end - from);
    reader->line(line, ++number, out);
    if (out.arguments.empty()) out.arguments = arguments_of(line);
    from = end + 1;
  }
  for (const Value& mark : rows->value("on_cpu", Value::array()))
    out.on_cpu = out.on_cpu || text.find(mark.get_ref<const std::string&>()) != std::string_view::npos;
  for (const char* key : {"model-path", "model", "model-tag"}) {
    if (out.model.empty() && out.arguments.count(key) > 0) out.model = out.arguments.at(key);
  }
  if (const auto k = out.term("kv_k_gib"); k && !out.term("kv_pool_gib"))
    out.terms["kv_pool_gib"] = *k + out.term("kv_v_gib").value_or(0);
  double state = 0;
  for (const char* part : {"conv_gib", "ssm_gib", "intermediate_ssm_gib", "intermediate_conv_gib"})
    state += out.term(part).value_or(0);
  if (state > 0) out.terms["state_gib"] = state;
  return out;
}

}  // namespace millwright::planner

#include "steps/server/planner/log_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <regex>

#include "orchestrator/base/text.hpp"

namespace millwright::planner {
namespace {

constexpr std::size_t kLongestLine = 8192;

// One row of the data with its expression ready.
struct Row {
  std::string has;
  std::optional<std::regex> match;
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
      try {
        row.match.emplace(data.at("match").get<std::string>());
      } catch (const std::regex_error& wrong) {
        return fail(ErrorKind::invalid, fmt::format("memory_log.yml: '{}' is no regular expression: {}",
                                                    data.at("match").get<std::string>(), wrong.what()));
      }
    }
    out.push_back(std::move(row));
  }
  return out;
}

// The groups of a row in this line; nothing when it does not match. A row without an expression has no groups.
std::optional<std::vector<std::string>> groups_of(const Row& row, const std::string& line) {
  if (line.find(row.has) == std::string::npos) return {};
  if (!row.match) return std::vector<std::string>{};
  std::smatch found;
  if (!std::regex_search(line, found, *row.match)) return {};
  std::vector<std::string> out;
  for (std::size_t group = 1; group < found.size(); ++group) out.push_back(found[group].str());
  return out;
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
    out.milestones_ = engine.at("milestones");
    if (engine.contains("version")) {
      auto version = rows_of(Value{{"version", Value::array({engine.at("version")})}}, "version");
      if (!version) return fail(version.error());
      out.version_ = std::move(*version);
    }
    return out;
  }

  void line(const std::string& whole, int number, LogReading& out) {
    const std::string text = whole.substr(0, kLongestLine);
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
    for (const Value& milestone : milestones_) {
      if (text.find(milestone.at("has").get<std::string>()) != std::string::npos)
        out.reached = milestone.at("name").get<std::string>();
    }
    if (out.reached != "run_time" || out.ready) return;
    // It came up all the same; what fails from here on fails while it serves.
    out.ready = true;
    out.failure.reset();
    worst_ = static_cast<std::size_t>(-1);
  }

 private:
  void failure(std::size_t at, const std::string& text, int number, LogReading& out) {
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
  Value milestones_;
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
  out.engine = engine.empty() ? recognised(engines, text) : engine;
  const auto rows = engines.find(out.engine);
  if (rows == engines.end())
    return fail(make_error(ErrorKind::usage, "nothing in this log is of an engine that is known here")
                    .with_hint("say whose it is: --engine sglang@0.5.9"));
  auto reader = Reader::of(*rows);
  if (!reader) return fail(reader.error());
  int number = 0;
  for (const std::string& line : split_lines(text)) {
    reader->line(line, ++number, out);
    if (out.arguments.empty()) out.arguments = arguments_of(line);
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

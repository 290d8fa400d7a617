#include "steps/server/compatibility.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// A list of the data, which stays where it is: rows are pointed at.
const Value& list_of(const Value& row, const char* key) {
  static const Value none = Value::array();
  const auto found = row.find(key);
  return found == row.end() ? none : *found;
}

std::string text_of(const Value& row, const char* key) { return row.value(key, std::string()); }

// How many characters of a pattern with `*` an id fits, or nothing. Quantised and tuned copies carry the name of the
// original in front: "Qwen/Qwen3.6-27B-FP8".
std::optional<std::size_t> fits_name(const std::string& id, const std::string& pattern) {
  const std::string known = lower(pattern), wanted = lower(id);
  const std::string stem = known.substr(0, known.find('*'));
  if (stem.empty() || wanted.rfind(stem, 0) != 0) return {};
  if (wanted.size() == stem.size() || stem.size() < known.size()) return stem.size();
  return wanted[stem.size()] == '-' ? std::optional(stem.size()) : std::nullopt;
}

struct FamilyRow {
  std::string family;
  const Value* row = nullptr;
  std::size_t likeness = 0;
};

// Every row on this model and engine, the most particular first.
std::vector<FamilyRow> rows_for(const Value& models, const CompatibilityQuery& query) {
  std::vector<FamilyRow> out;
  for (const Value& family : list_of(models, "models")) {
    std::optional<std::size_t> likeness;
    if (lower(text_of(family, "architecture")) == lower(query.model)) likeness = query.model.size();
    for (const Value& name : list_of(family, "names")) {
      likeness = std::max(likeness, fits_name(query.model, name.get<std::string>()));
    }
    if (!likeness) continue;
    for (const Value& row : family.at("engines")) {
      if (text_of(row, "engine") == query.engine) out.push_back({text_of(family, "family"), &row, *likeness});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const FamilyRow& a, const FamilyRow& b) { return a.likeness > b.likeness; });
  return out;
}

Compatibility of_kind(const std::string& kind) {
  return kind == "required" ? Compatibility::refused : Compatibility::warned;
}

std::string by_whom(const std::string& kind) {
  return kind == "reported" ? ", a third party reports" : kind == "tested" ? " (earlier ones are untested)" : "";
}

class Checker {
 public:
  Checker(const Knowledge& knowledge, const CompatibilityQuery& query, Version version)
      : knowledge_(knowledge), query_(query), version_(std::move(version)) {}

  Result<CompatibilityReport> check() {
    if (auto done = model(); !done) return fail(done.error());
    if (auto done = hardware(); !done) return fail(done.error());
    std::optional<Compatibility> worst;
    for (const CompatibilityFinding& finding : report_.findings) {
      if (finding.verdict != Compatibility::unknown)
        worst = std::max(worst.value_or(Compatibility::fits), finding.verdict);
    }
    report_.verdict = worst.value_or(Compatibility::unknown);
    return std::move(report_);
  }

 private:
  Result<void> model() {
    const std::vector<FamilyRow> rows = rows_for(knowledge_.file("models"), query_);
    for (const FamilyRow& entry : rows) {
      const Value& row = *entry.row;
      if (report_.reasoning_parser.empty()) report_.reasoning_parser = text_of(row, "reasoning_parser");
      if (report_.tool_parser.empty()) report_.tool_parser = text_of(row, "tool_parser");
      for (const Value& need : list_of(row, "needs")) add_once(report_.needs, need.get<std::string>());
      const std::string versions = text_of(row, "versions");
      if (versions.empty()) continue;
      const Result<bool> matches = version_matches(version_, versions);
      if (!matches) return fail(matches.error());
      const std::string kind = text_of(row, "kind");
      const std::string note = text_of(row, "note");
      CompatibilityFinding finding;
      finding.verdict = *matches ? Compatibility::fits : of_kind(kind);
      finding.what = fmt::format("{} {} {} {}{}{}", entry.family, kind == "tested" ? "is known to work with" : "needs",
                                 query_.engine, versions, by_whom(kind), note.empty() ? "" : "; " + note);
      if (!*matches) finding.cure = fmt::format("{} {}", query_.engine, versions);
      finding.source = text_of(row, "source");
      report_.findings.push_back(std::move(finding));
    }
    if (report_.findings.empty()) {
      report_.findings.push_back({Compatibility::unknown,
                                  fmt::format("nothing is known about '{}' with {}", query_.model, query_.engine),
                                  "the smoke test will tell", ""});
    }
    return {};
  }

  Result<void> hardware() {
    const Value& file = knowledge_.file("hardware");
    for (const Value& row : list_of(file, "engines")) {
      if (text_of(row, "engine") != query_.engine) continue;
      const Result<bool> matches = version_matches(version_, text_of(row, "versions"));
      if (!matches) return fail(matches.error());
      if (!*matches) continue;
      if (row.contains("compute_capability")) architecture(row, query_.engine + " " + query_.version);
      if (const std::string cuda = text_of(row, "cuda"); !cuda.empty()) driver(file, row, cuda);
    }
    return {};
  }

  void architecture(const Value& row, const std::string& who) {
    if (!query_.compute_capability) return;
    const double lowest = row.at("compute_capability").get<double>();
    CompatibilityFinding finding;
    finding.verdict = *query_.compute_capability >= lowest ? Compatibility::fits : Compatibility::refused;
    finding.what = fmt::format("{} runs on GPUs of compute capability {:.1f} and later; this one has {:.1f}", who,
                               lowest, *query_.compute_capability);
    if (finding.verdict == Compatibility::refused) finding.cure = "an earlier version, or another engine";
    finding.source = text_of(row, "source");
    report_.findings.push_back(std::move(finding));
  }

  void driver(const Value& file, const Value& engine_row, const std::string& cuda) {
    for (const Value& row : list_of(file, "cuda")) {
      if (text_of(row, "cuda") != cuda) continue;
      if (row.contains("compute_capability")) architecture(row, "CUDA " + cuda);
      if (!query_.driver) continue;
      const int lowest = row.at("driver").get<int>();
      CompatibilityFinding finding;
      finding.verdict = *query_.driver >= lowest ? Compatibility::fits : of_kind(text_of(engine_row, "kind"));
      finding.what = fmt::format("{} {} brings CUDA {}, which needs a driver of branch {} or later; this is {}",
                                 query_.engine, query_.version, cuda, lowest, *query_.driver);
      if (finding.verdict != Compatibility::fits) finding.cure = fmt::format("a driver of branch {} or later", lowest);
      finding.source = text_of(row, "source") + "; " + text_of(engine_row, "source");
      report_.findings.push_back(std::move(finding));
    }
  }

  static void add_once(std::vector<std::string>& list, const std::string& text) {
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
  }

  const Knowledge& knowledge_;
  const CompatibilityQuery& query_;
  Version version_;
  CompatibilityReport report_;
};

}  // namespace

std::string_view to_string(Compatibility verdict) {
  switch (verdict) {
    case Compatibility::fits:
      return "fits";
    case Compatibility::warned:
      return "warned";
    case Compatibility::refused:
      return "refused";
    case Compatibility::unknown:
      return "unknown";
  }
  return "unknown";
}

Result<CompatibilityReport> check_compatibility(const Knowledge& knowledge, const CompatibilityQuery& query) {
  const Result<Version> version = Version::parse(query.version);
  if (!version) {
    return fail(
        make_error(ErrorKind::usage, fmt::format("'{}' is no version", query.version)).with_hint("write it as 0.5.11"));
  }
  return Checker(knowledge, query, *version).check();
}

Value to_json(const CompatibilityReport& report) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Value() : Value(text); };
  Value out = {{"schema_version", kCompatibilitySchemaVersion},
               {"verdict", to_string(report.verdict)},
               {"reasoning_parser", or_null(report.reasoning_parser)},
               {"tool_parser", or_null(report.tool_parser)},
               {"needs", report.needs},
               {"findings", Value::array()}};
  for (const CompatibilityFinding& finding : report.findings) {
    out["findings"].push_back({{"verdict", to_string(finding.verdict)},
                               {"what", finding.what},
                               {"cure", or_null(finding.cure)},
                               {"source", or_null(finding.source)}});
  }
  return out;
}

}  // namespace millwright

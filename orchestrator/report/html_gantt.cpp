// When which step ran, host by host.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "orchestrator/report/html_parts.hpp"
#include "orchestrator/report/html_text.hpp"

namespace millwright {
namespace {

struct Row {
  std::string host, step;
  std::vector<const StepSpan*> spans;
  std::int64_t took_ms = 0;
};

std::vector<Row> rows_of(const RunFacts& run) {
  std::vector<Row> rows;
  std::map<std::pair<std::string, std::string>, std::size_t> at;
  for (const StepSpan& span : run.spans) {
    const auto [found, fresh] = at.emplace(std::pair(span.host, span.step), rows.size());
    if (fresh) rows.push_back(Row{span.host, span.step, {}, 0});
    Row& row = rows[found->second];
    row.spans.push_back(&span);
    row.took_ms += span.to_ms - span.from_ms;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.host < b.host; });
  return rows;
}

double percent(std::int64_t part, std::int64_t whole) {
  return std::clamp(100.0 * static_cast<double>(part) / static_cast<double>(whole), 0.0, 100.0);
}

std::string axis(std::int64_t whole) {
  std::string out = "<div></div><div class=\"axis\">";
  for (int quarter = 0; quarter <= 4; ++quarter) {
    const std::int64_t at = whole * quarter / 4;
    out += fmt::format("<span style=\"left:{}%\">{}</span>", quarter * 25, at == 0 ? "0" : html(html_duration(at)));
  }
  return out + "</div><div></div>";
}

}  // namespace

std::string html_gantt(const RunFacts& run) {
  std::int64_t whole = std::max<std::int64_t>(run.took_ms, 1);
  for (const StepSpan& span : run.spans) whole = std::max(whole, span.to_ms);
  const std::vector<Row> rows = rows_of(run);
  if (rows.empty()) return "";
  std::string out = "<section><h2>When</h2>";
  std::string host = "\n";
  for (const Row& row : rows) {
    if (row.host != host) {
      if (host != "\n") out += axis(whole) + "</div></div>";
      host = row.host;
      out += "<div class=\"card\"><h3>" + html(host.empty() ? "run" : host) + "</h3><div class=\"gantt\">";
    }
    const std::string name = run.name_of(row.step);
    out += "<div class=\"name\" title=\"" + html(row.step + (name.empty() ? "" : ": " + name)) + "\">" +
           html(row.step) + "</div><div class=\"track\">";
    for (const StepSpan* span : row.spans) {
      const double left = percent(span->from_ms, whole);
      out += fmt::format("<div class=\"bar {}\" style=\"left:{:.2f}%;width:{:.2f}%\" title=\"{}\"></div>",
                         tone(span->state), left, std::max(0.1, percent(span->to_ms, whole) - left),
                         html(span->state + ": " + span->summary));
    }
    out += "</div><div class=\"took\">" + html(html_duration(row.took_ms)) + "</div>";
  }
  return out + axis(whole) + "</div></div></section>\n";
}

}  // namespace millwright

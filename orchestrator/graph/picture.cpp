// DOT (https://graphviz.org/doc/info/lang.html) and Mermaid flowcharts (https://mermaid.js.org/syntax/flowchart.html).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "orchestrator/graph/graph.hpp"

namespace millwright {
namespace {

struct Colour {
  std::string_view state;
  std::string_view fill;
  std::string_view line;
};

// Dark text on pale ground reads in both light and dark pages.
constexpr std::array<Colour, 9> kColours = {{
    {"ok", "#d8f0d8", "#2e7d32"},
    {"changed", "#fff0c2", "#b7791f"},
    {"failed", "#f9d6d5", "#c62828"},
    {"skipped", "#eeeeee", "#9e9e9e"},
    {"unreachable", "#e6d6f5", "#6a1b9a"},
    {"cancelled", "#eeeeee", "#616161"},
    {"refused", "#fde0cc", "#d84315"},
    {"running", "#d6e8fb", "#1565c0"},
    {"rolled_back", "#dfe3ea", "#455a64"},
}};

const Colour* colour_of(const std::string& state) {
  const auto found =
      std::find_if(kColours.begin(), kColours.end(), [&](const Colour& colour) { return colour.state == state; });
  return found == kColours.end() ? nullptr : &*found;
}

// Inside DOT's double quotes. Line breaks are the layout's, so they are written as its escape.
std::string dot_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  }
  return out;
}

// Inside Mermaid's double quotes: everything that it or HTML gives a meaning, as entity codes.
std::string mermaid_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\"#&<>;\\`*_|{}[]()").find(c) != std::string_view::npos) {
      out += fmt::format("#{};", static_cast<int>(static_cast<unsigned char>(c)));
    } else if (c == '\n') {
      out += "<br/>";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  }
  return out;
}

// Members by group, groups in the order in which they first come; "" holds what is in no group.
std::vector<std::pair<std::string, std::vector<std::size_t>>> by_group(const std::vector<GraphNode>& nodes) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> groups = {{"", {}}};
  std::map<std::string, std::size_t> positions = {{"", 0}};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto [at, is_new] = positions.emplace(nodes[i].group, groups.size());
    if (is_new) groups.push_back({nodes[i].group, {}});
    groups[at->second].second.push_back(i);
  }
  return groups;
}

std::string dot_node(const GraphNode& node, std::size_t i, std::string_view indent) {
  const std::string second = node.label.empty() ? "" : "\\n" + dot_text(node.label);
  std::string style;
  if (const Colour* colour = colour_of(node.state)) {
    style = fmt::format(", fillcolor=\"{}\", color=\"{}\"", colour->fill, colour->line);
  }
  const std::string tip = node.state.empty() ? node.id : node.id + ": " + node.state;
  return fmt::format("{}n{} [label=\"{}{}\", tooltip=\"{}\"{}];\n", indent, i, dot_text(node.id), second, dot_text(tip),
                     style);
}

}  // namespace

std::string StepGraph::to_dot(const std::string& title) const {
  std::string out = "digraph millwright {\n";
  out += fmt::format("  label=\"{}\"; labelloc=t; rankdir=TB; fontname=\"sans-serif\";\n", dot_text(title));
  out +=
      "  node [shape=box, style=\"rounded,filled\", fillcolor=\"#f6f6f6\", color=\"#555555\", "
      "fontcolor=\"#111111\", fontname=\"sans-serif\"];\n";
  out += "  edge [color=\"#555555\"];\n";
  std::size_t number = 0;
  for (const auto& [group, members] : by_group(nodes_)) {
    const bool boxed = !group.empty();
    if (boxed) {
      out += fmt::format("  subgraph cluster_{} {{\n    label=\"{}\"; style=rounded; color=\"#999999\";\n", number++,
                         dot_text(group));
    }
    for (const std::size_t i : members) out += dot_node(nodes_[i], i, boxed ? "    " : "  ");
    if (boxed) out += "  }\n";
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::size_t needed : needs_[i]) {
      const auto& all = nodes_[i].needs_all_hosts;
      const bool dashed = std::find(all.begin(), all.end(), nodes_[needed].id) != all.end();
      out += fmt::format("  n{} -> n{}{};\n", needed, i, dashed ? " [style=dashed, label=\"all hosts\"]" : "");
    }
  }
  return out + "}\n";
}

std::string StepGraph::to_mermaid(const std::string& title) const {
  // The title goes through YAML front matter, where a JSON string is a valid scalar.
  std::string quoted;
  for (const char c : title) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) quoted += c;
  }
  std::string out = fmt::format("---\ntitle: \"{}\"\n---\nflowchart TB\n", quoted);
  std::size_t number = 0;
  for (const auto& [group, members] : by_group(nodes_)) {
    const bool boxed = !group.empty();
    if (boxed) out += fmt::format("  subgraph g{}[\"{}\"]\n", number++, mermaid_text(group));
    for (const std::size_t i : members) {
      const std::string second = nodes_[i].label.empty() ? "" : "<br/>" + mermaid_text(nodes_[i].label);
      out += fmt::format("{}n{}[\"{}{}\"]\n", boxed ? "    " : "  ", i, mermaid_text(nodes_[i].id), second);
    }
    if (boxed) out += "  end\n";
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::size_t needed : needs_[i]) {
      const auto& all = nodes_[i].needs_all_hosts;
      const bool dashed = std::find(all.begin(), all.end(), nodes_[needed].id) != all.end();
      out += fmt::format("  n{} {} n{}\n", needed, dashed ? "-. all hosts .->" : "-->", i);
    }
  }
  for (const Colour& colour : kColours) {
    std::string members;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].state == colour.state) members += fmt::format("{}n{}", members.empty() ? "" : ",", i);
    }
    if (members.empty()) continue;
    out += fmt::format("  classDef {} fill:{},stroke:{},color:#111111\n", colour.state, colour.fill, colour.line);
    out += fmt::format("  class {} {}\n", members, colour.state);
  }
  return out;
}

}  // namespace millwright

#include "orchestrator/graph/graph.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace millwright {
namespace {

GraphNode node(std::string id, std::vector<std::string> needs = {}) {
  GraphNode out;
  out.id = std::move(id);
  out.needs = std::move(needs);
  return out;
}

StepGraph diamond() {
  return *StepGraph::build({node("a"), node("c", {"a"}), node("b", {"a"}), node("d", {"b", "c"})});
}

using Indices = std::vector<std::size_t>;

TEST(StepGraph, OrderIsTopologicalAndKeepsTheFileOtherwise) {
  EXPECT_EQ(diamond().order(), (Indices{0, 1, 2, 3}));
  const auto backwards = StepGraph::build({node("last", {"mid"}), node("mid", {"first"}), node("first"), node("free")});
  EXPECT_EQ(backwards->order(), (Indices{2, 1, 0, 3}));
  EXPECT_EQ(StepGraph::build({})->order(), Indices{});
}

TEST(StepGraph, DependentsAndBetween) {
  const StepGraph graph =
      *StepGraph::build({node("a"), node("b", {"a"}), node("c", {"b"}), node("d", {"b"}), node("e", {"c"}), node("f")});
  EXPECT_EQ(graph.dependents(1), (Indices{2, 3, 4}));
  EXPECT_EQ(graph.dependents(5), Indices{});
  EXPECT_EQ(graph.between(1, 4), (Indices{1, 2, 4}));
  EXPECT_EQ(graph.between(0, 0), (Indices{0}));
  EXPECT_EQ(graph.between(3, 4), Indices{});
}

TEST(StepGraph, AcrossHostsIsAnEdgeToo) {
  GraphNode late = node("late");
  late.needs_all_hosts = {"early"};
  const StepGraph graph = *StepGraph::build({late, node("early")});
  EXPECT_EQ(graph.order(), (Indices{1, 0}));
}

TEST(StepGraph, MistakesAreNamed) {
  const auto unknown = StepGraph::build({node("box"), node("run", {"bxo"})});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "step 'run' needs 'bxo', which does not exist");
  EXPECT_EQ(unknown.error().hint, "did you mean 'box'?");
  EXPECT_EQ(unknown.error().detail, "run");
  const auto cycle = StepGraph::build({node("x"), node("a", {"x", "c"}), node("b", {"a"}), node("c", {"b"})});
  ASSERT_FALSE(cycle);
  EXPECT_EQ(cycle.error().message, "steps wait for each other: a -> c -> b -> a");
  EXPECT_EQ(StepGraph::build({node("a", {"a"})}).error().message, "steps wait for each other: a -> a");
  EXPECT_EQ(StepGraph::build({node("a"), node("a")}).error().message, "two steps are named 'a'");
}

TEST(StepGraph, LongChainsDoNotExhaustTheStack) {
  std::vector<GraphNode> nodes = {node("n0")};
  for (int i = 1; i < 200'000; ++i) nodes.push_back(node("n" + std::to_string(i), {"n" + std::to_string(i - 1)}));
  nodes[0].needs = {"n199999"};
  EXPECT_FALSE(StepGraph::build(nodes));
  nodes[0].needs.clear();
  EXPECT_EQ(StepGraph::build(nodes)->order().size(), nodes.size());
}

// Whatever a person can put into an id, a label or a title.
StepGraph picturesque() {
  std::vector<GraphNode> nodes = {node("driver"), node("box", {"driver"}), node("it's \"odd\" <b>&\\n{}[]|;#", {"box"}),
                                  node("smoke", {"driver"})};
  nodes[0].label = "gpu.driver";
  nodes[0].state = "changed";
  nodes[2].group = "llm \"x\"";
  nodes[2].label = "line\nbreak --> end";
  nodes[2].state = "failed";
  nodes[3].group = "llm \"x\"";
  nodes[3].needs_all_hosts = {"driver"};
  nodes[3].state = "some unknown state";
  return *StepGraph::build(nodes);
}

TEST(StepGraph, DotAsText) {
  EXPECT_EQ(diamond().to_dot("a \"title\""),
            "digraph millwright {\n"
            "  label=\"a \\\"title\\\"\"; labelloc=t; rankdir=TB; fontname=\"sans-serif\";\n"
            "  node [shape=box, style=\"rounded,filled\", fillcolor=\"#f6f6f6\", color=\"#555555\", "
            "fontcolor=\"#111111\", fontname=\"sans-serif\"];\n"
            "  edge [color=\"#555555\"];\n"
            "  n0 [label=\"a\", tooltip=\"a\"];\n"
            "  n1 [label=\"c\", tooltip=\"c\"];\n"
            "  n2 [label=\"b\", tooltip=\"b\"];\n"
            "  n3 [label=\"d\", tooltip=\"d\"];\n"
            "  n0 -> n1;\n"
            "  n0 -> n2;\n"
            "  n2 -> n3;\n"
            "  n1 -> n3;\n"
            "}\n");
}

TEST(StepGraph, MermaidAsText) {
  EXPECT_EQ(picturesque().to_mermaid("Serve: \"it\""),
            "---\ntitle: \"Serve: \\\"it\\\"\"\n---\n"
            "flowchart TB\n"
            "  n0[\"driver<br/>gpu.driver\"]\n"
            "  n1[\"box\"]\n"
            "  subgraph g0[\"llm #34;x#34;\"]\n"
            "    n2[\"it's #34;odd#34; #60;b#62;#38;#92;n#123;#125;#91;#93;#124;#59;#35;<br/>line<br/>break --#62; "
            "end\"]\n"
            "    n3[\"smoke\"]\n"
            "  end\n"
            "  n0 --> n1\n"
            "  n1 --> n2\n"
            "  n0 -. all hosts .-> n3\n"
            "  classDef changed fill:#fff0c2,stroke:#b7791f,color:#111111\n"
            "  class n0 changed\n"
            "  classDef failed fill:#f9d6d5,stroke:#c62828,color:#111111\n"
            "  class n2 failed\n");
}

TEST(StepGraph, GraphvizDrawsIt) {
  if (std::system("command -v dot >/dev/null 2>&1") != 0) GTEST_SKIP() << "graphviz is not installed";
  char name[] = "/tmp/mw-graph-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::string folder = name;
  std::ofstream(folder + "/g.dot") << picturesque().to_dot("Serve \"x\" \\ <y>");
  const std::string command = "dot -Tsvg " + folder + "/g.dot -o " + folder + "/g.svg 2>" + folder + "/err";
  EXPECT_EQ(std::system(command.c_str()), 0);
  const auto read = [&](const char* file) {
    std::ifstream in(folder + file);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  };
  EXPECT_EQ(read("/err"), "");
  const std::string svg = read("/g.svg");
  EXPECT_NE(svg.find("class=\"cluster\""), std::string::npos);
  EXPECT_NE(svg.find("odd&quot;"), std::string::npos);
  EXPECT_NE(svg.find("#f9d6d5"), std::string::npos);
  EXPECT_NE(svg.find("stroke-dasharray"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace millwright

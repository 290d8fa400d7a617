#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <fstream>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/playbook_file.hpp"
#include "orchestrator/cli/step_kinds.hpp"
#include "orchestrator/cli/temporary_file.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/graph/graph.hpp"
#include "orchestrator/playbook/playbook.hpp"

namespace millwright {
namespace {

struct Options {
  std::string playbook;
  std::string format;
  std::string output;
};

Result<StepGraph> graph_of(const Playbook& playbook) {
  std::vector<GraphNode> nodes;
  for (const StepDecl& step : playbook.steps) {
    GraphNode node;
    node.id = step.id;
    node.label = step.uses;
    node.group = step.in;
    for (const NeedDecl& need : step.needs) (need.on_all ? node.needs_all_hosts : node.needs).push_back(need.step);
    nodes.push_back(std::move(node));
  }
  return StepGraph::build(std::move(nodes));
}

Result<std::string> svg_of(const std::string& dot) {
  const auto file = TemporaryFile::with(dot);
  if (!file) return fail(file.error());
  std::FILE* pipe = ::popen(("dot -Tsvg " + shell_quote(file->path())).c_str(), "r");
  if (pipe == nullptr) return fail(ErrorKind::io, "cannot start a shell to run dot");
  std::string svg;
  std::array<char, 8192> buffer{};
  for (std::size_t size = 0; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    svg.append(buffer.data(), size);
  const int status = ::pclose(pipe);
  if (status != 0 || svg.empty())
    return fail(make_error(ErrorKind::io, "dot could not draw the graph")
                    .with_hint("SVG needs Graphviz: apt-get install graphviz. --format mermaid and dot need nothing"));
  return svg;
}

Result<std::string> picture(const StepGraph& graph, const std::string& title, const std::string& format) {
  if (format == "mermaid") return graph.to_mermaid(title);
  if (format == "dot") return graph.to_dot(title);
  return svg_of(graph.to_dot(title));
}

std::string format_from(const std::string& given, const std::string& output) {
  if (!given.empty()) return given;
  if (ends_with(output, ".svg")) return "svg";
  if (ends_with(output, ".mmd") || ends_with(output, ".mermaid")) return "mermaid";
  return "dot";
}

int run(const Session& session, const Options& options) {
  const auto kinds = load_step_kinds(session);
  if (!kinds) return session.refuse(kinds.error());
  const auto playbook = load_playbook(playbook_file(options.playbook), kinds->registry);
  if (!playbook) return session.refuse(playbook.error());
  const auto graph = graph_of(*playbook);
  if (!graph) return session.refuse(graph.error());
  const auto text = picture(*graph, playbook->name, format_from(options.format, options.output));
  if (!text) return session.fail_with(text.error());
  if (options.output.empty()) {
    session.console.out(*text);
    return kDone;
  }
  std::ofstream out(options.output, std::ios::binary);
  out << *text;
  out.close();
  if (!out) return session.fail_with(make_error(ErrorKind::io, "cannot write " + options.output));
  return kDone;
}

}  // namespace

void add_graph(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("graph", "Draw which step waits for which");
  verb->add_option("playbook", options->playbook, "The playbook")->type_name("PLAYBOOK")->required();
  verb->add_option("--format", options->format, "dot, mermaid or svg (default: by the name of -o, else dot)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"dot", "mermaid", "svg"}));
  verb->add_option("-o,--output", options->output, "Write here instead of printing")->type_name("FILE");
  add_common_options(*verb, session.common);
  add_examples(*verb, {"millwright graph serve.yml -o serve.svg", "millwright graph serve.yml --format mermaid"});
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <filesystem>
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

Result<std::string> drawn(const std::string& dot, const std::string& format) {
  const auto file = TemporaryFile::with(dot);
  if (!file) return fail(file.error());
  std::FILE* pipe = ::popen(("dot -T" + format + " " + shell_quote(file->path())).c_str(), "r");
  if (pipe == nullptr) return fail(ErrorKind::io, "cannot start a shell to run dot");
  std::string picture;
  std::array<char, 8192> buffer{};
  for (std::size_t size = 0; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    picture.append(buffer.data(), size);
  const int status = ::pclose(pipe);
  if (status != 0 || picture.empty())
    return fail(
        make_error(ErrorKind::io, "dot could not draw the graph")
            .with_hint(
                "svg, png and pdf need Graphviz: apt-get install graphviz. --format mermaid and dot need nothing"));
  return picture;
}

Result<std::string> picture(const StepGraph& graph, const std::string& title, const std::string& format) {
  if (format == "mermaid") return graph.to_mermaid(title);
  if (format == "dot") return graph.to_dot(title);
  return drawn(graph.to_dot(title), format);
}

// By the name of the file, unless it is said; a name that stands for something else must not get dot's text.
Result<std::string> format_from(const std::string& given, const std::string& output) {
  if (!given.empty()) return given;
  const std::string ending = std::filesystem::path(output).extension().string();
  for (const char* format : {"svg", "png", "pdf"}) {
    if (ending == "." + std::string(format)) return std::string(format);
  }
  if (ending == ".mmd" || ending == ".mermaid") return std::string("mermaid");
  if (ending.empty() || ending == ".dot" || ending == ".gv") return std::string("dot");
  return fail(make_error(ErrorKind::usage, fmt::format("what to draw is not known by the name '{}'", output))
                  .with_hint("end it with .svg, .png, .pdf, .mmd or .dot, or give --format"));
}

int run(const Session& session, const Options& options) {
  const auto format = format_from(options.format, options.output);
  if (!format) return session.refuse(format.error());
  const bool bytes = *format == "png" || *format == "pdf";
  if (bytes && options.output.empty() && session.console.out_is == Terminal::yes) {
    return session.refuse(
        make_error(ErrorKind::usage, *format + " is no text for a terminal").with_hint("add -o FILE"));
  }
  const auto kinds = load_step_kinds(session);
  if (!kinds) return session.refuse(kinds.error());
  const auto playbook = load_named_playbook(options.playbook, kinds->registry);
  if (!playbook) return session.refuse(playbook.error());
  const auto graph = graph_of(*playbook);
  if (!graph) return session.refuse(graph.error());
  const auto text = picture(*graph, playbook->name, *format);
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
  verb->add_option("--format", options->format, "dot, mermaid, svg, png or pdf (default: by the name of -o, else dot)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"dot", "mermaid", "svg", "png", "pdf"}));
  verb->add_option("-o,--output", options->output, "Write here instead of printing")->type_name("FILE");
  add_common_options(*verb, session.common);
  add_examples(*verb, {"millwright graph serve.yml -o serve.svg", "millwright graph serve.yml --format mermaid"});
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright

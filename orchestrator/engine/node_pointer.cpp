#include "orchestrator/engine/node_pointer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/ask.hpp"

namespace millwright {

namespace {

// Only ever run when the node's own undo.sh is missing.
constexpr const char* lost_undo = "echo 'the node has lost the undo of this action' >&2\nexit 66\n";
constexpr int no_folder = 3;

Result<std::string> run_folder(HostSession& host, NodeSession& node, Become become, const std::string& run) {
  AskBatch facts(node);
  facts.add_facts(become);
  if (Result<void> sent = facts.send(); !sent) return fail(sent.error());
  return host.state_dir(node, become) + "/runs/" + run;
}

// Each action's folder and its description, a line each.
std::string list_script(const std::string& folder) {
  return "R=" + shell_quote(folder) + fmt::format("\n[ -d \"$R\" ] || exit {}\n", no_folder) +
         "for d in \"$R\"/*/; do\n  [ -f \"$d/meta.json\" ] || continue\n"
         // Without its newline it was not written whole, and nothing of the action began.
         "  if IFS= read -r meta <\"$d/meta.json\"; then printf '%s\\n%s\\n' \"${d%/}\" \"$meta\"; fi\ndone\n";
}

std::string pointers_script(const std::string& folder) {
  return "for f in " + shell_quote(folder) + "/nodes/*.json; do [ ! -f \"$f\" ] || cat \"$f\"; done\n";
}

// The host may go by another name in this inventory.
Value renamed(Value address, const std::string& host) {
  address["host"] = host;
  if (address.contains("through")) address["through"] = renamed(address["through"], host);
  return address;
}

Result<void> read_listing(const std::string& listing, const std::string& name, const Value& node,
                          std::vector<UndoRecord>& records) {
  const std::vector<std::string> lines = split_lines(listing);
  for (std::size_t i = 0; i + 1 < lines.size(); i += 2) {
    const Value meta = Value::parse(lines[i + 1], nullptr, false);
    if (!meta.is_object()) return fail(ErrorKind::io, lines[i] + "/meta.json on " + name + " is damaged");
    const auto same = [&](const UndoRecord& other) { return other.remote_dir == lines[i] && other.node == node; };
    if (std::any_of(records.begin(), records.end(), same)) continue;
    UndoRecord record;
    record.seq = meta.value("seq", std::uint64_t{0});
    record.host = name;
    record.node = node;
    record.step = meta.value("step", std::string());
    record.title = meta.value("title", std::string());
    record.undo_title = meta.value("undo_title", std::string());
    record.remote_dir = lines[i];
    if (meta.value("reversible", false)) record.script = lost_undo;
    records.push_back(std::move(record));
  }
  return {};
}

UndoRecord out_of_reach(const Value& node, const std::string& folder, const Error& error) {
  UndoRecord record;
  record.host = node["host"].get<std::string>();
  record.node = node;
  record.step = node.value("provided_by", std::string());
  record.title = fmt::format("what was done in container {} ({})", node["container"]["id"].dump(), error.message);
  record.remote_dir = folder + "/unknown";
  record.script = lost_undo;
  return record;
}

Result<void> follow_pointer(HostSession& host, const Value& pointer, std::vector<UndoRecord>& records) {
  Value node = renamed(pointer["node"], host.name());
  const std::string folder = pointer.value("folder", std::string());
  const Become become = node.value("become", false) ? Become::root : Become::no;
  Result<NodeSession*> session = host.node_at(node);
  Command command;
  command.become = become;
  command.script = list_script(folder);
  Result<CommandResult> listed =
      session ? (*session)->connection->run(command) : Result<CommandResult>(fail(session.error()));
  if (!listed) {
    if (!node.contains("container") || !host.reachable()) return fail(listed.error());
    records.push_back(out_of_reach(node, folder, listed.error()));
    return {};
  }
  if (listed->exit_code == no_folder) return {};
  return read_listing(listed->out, (*session)->name, node, records);
}

}  // namespace

Result<void> point_at(HostSession& host, NodeSession& node, Become become, const std::string& run) {
  const Become own = host.host().target.become;
  if ((&node == &host.base() && become == own) || node.pointed_at(become)) return {};
  Result<std::string> from = run_folder(host, host.base(), own, run);
  if (!from) return fail(from.error());
  Result<std::string> to = run_folder(host, node, become, run);
  if (!to) return fail(to.error());
  Value address = node.address;
  address["become"] = become == Become::root;
  const std::string text =
      Value{{"node", std::move(address)}, {"folder", *to}}.dump(-1, ' ', false, Value::error_handler_t::replace);
  Command command;
  command.become = own;
  command.script = fmt::format(
      "umask 077\nN={}/nodes\nF=\"$N\"/{}.json\nmkdir -p \"$N\" && printf '%s\\n' {} >\"$F.tmp.$$\" && "
      "mv -f \"$F.tmp.$$\" \"$F\"\n",
      shell_quote(*from), sha256_hex(text).substr(0, 16), shell_quote(text));
  const Result<CommandResult> done = host.base().connection->run(command);
  if (!done) return fail(done.error());
  if (done->exit_code != 0) {
    return fail(make_error(ErrorKind::refused, fmt::format("{} cannot keep where records of {} are: {}", host.name(),
                                                           node.name, trim(done->err)))
                    .with_hint("is there space left, and may this user write to " + *from + "?"));
  }
  node.note_pointer(become);
  return {};
}

Result<std::vector<UndoRecord>> records_on_nodes(HostSession& host, const std::string& run) {
  if (Result<void> up = host.connect(); !up) return fail(up.error());
  const Become own = host.host().target.become;
  Result<std::string> folder = run_folder(host, host.base(), own, run);
  if (!folder) return fail(folder.error());
  Command list;
  list.become = own;
  list.script = list_script(*folder);
  Command pointers;
  pointers.become = own;
  pointers.script = pointers_script(*folder);
  const Result<std::vector<CommandResult>> read = host.base().connection->run_batch({list, pointers});
  if (!read) return fail(read.error());
  if ((*read)[0].exit_code != 0) {
    return fail(
        make_error(ErrorKind::invalid, fmt::format("{} knows no run {}: there is no {}", host.name(), run, *folder))
            .with_hint("ls " + host.state_dir(host.base(), own) + "/runs on the node shows what there is"));
  }
  std::vector<UndoRecord> records;
  for (const std::string& line : split_lines((*read)[1].out)) {
    const Value pointer = Value::parse(line, nullptr, false);
    if (!pointer.is_object() || !pointer.contains("node")) {
      return fail(ErrorKind::io, "a file of " + *folder + "/nodes is damaged");
    }
    if (Result<void> followed = follow_pointer(host, pointer, records); !followed) return fail(followed.error());
  }
  const Value self = {{"host", host.name()}, {"become", own == Become::root}};
  if (Result<void> own_ones = read_listing((*read)[0].out, host.name(), self, records); !own_ones) {
    return fail(own_ones.error());
  }
  std::stable_sort(records.begin(), records.end(),
                   [](const UndoRecord& a, const UndoRecord& b) { return a.seq < b.seq; });
  return records;
}

}  // namespace millwright

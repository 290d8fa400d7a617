#include "orchestrator/journal/sqlite_journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "orchestrator/journal/database.hpp"
#include "orchestrator/journal/evidence_files.hpp"
#include "orchestrator/journal/ledger.hpp"
#include "orchestrator/journal/process_identity.hpp"
#include "orchestrator/journal/rows.hpp"
#include "orchestrator/journal/schema.hpp"

namespace millwright {

namespace {

std::int64_t to_milliseconds(TimePoint time) {
  return std::chrono::duration_cast<Milliseconds>(time.time_since_epoch()).count();
}

TimePoint from_milliseconds(std::int64_t count) { return TimePoint(Milliseconds(count)); }

// Command output may hold any bytes; the journal is JSON, so what is not UTF-8 becomes U+FFFD.
std::string dump(const Value& value) { return value.dump(-1, ' ', false, Value::error_handler_t::replace); }

Result<Value> parse_column(const Statement& row, int column) {
  Value value = Value::parse(row.text(column), nullptr, false);
  if (value.is_discarded()) return fail(ErrorKind::io, "the journal is damaged: a column holds no JSON");
  return value;
}

class SqliteJournal final : public Journal {
 public:
  SqliteJournal(std::string directory, std::unique_ptr<Database> database, const std::string& path)
      : directory_(std::move(directory)), ledger_(std::move(database), path) {}

  Result<void> begin_run(const RunRecord& run) override;
  Result<void> finish_run(const std::string& run, int exit_code, const std::string& sentence, TimePoint when) override;
  Result<std::optional<RunRecord>> find_run(const std::string& wanted) override;
  Result<std::vector<RunRecord>> runs(std::size_t newest) override;
  Result<std::uint64_t> append(const Event& event) override;
  Result<std::vector<Event>> events(const std::string& run) override;
  Result<void> put_step(const std::string& run, const StepRecord& step) override;
  Result<std::vector<StepRecord>> steps(const std::string& run) override;
  Result<std::uint64_t> add_undo(const std::string& run, const UndoRecord& undo) override;
  Result<std::vector<std::uint64_t>> add_undos(const std::string& run, const std::vector<UndoRecord>& undos) override;
  Result<void> set_undo_state(const std::string& run, std::uint64_t seq, UndoState state) override;
  Result<std::vector<UndoRecord>> undos(const std::string& run) override;
  Result<void> lock(const LockRecord& lock) override;
  Result<void> unlock(const std::string& name, const std::string& holder) override;
  Result<std::vector<LockRecord>> locks() override;
  Result<EvidenceRecord> keep(const std::string& run, const std::string& host, const std::string& step,
                              const std::string& name, std::string_view bytes) override;
  Result<std::vector<EvidenceRecord>> evidence(const std::string& run) override;

 private:
  const std::string directory_;
  Ledger ledger_;
};

// Prepares, lets `bind` fill in, and runs to the end.
template <class Bind>
Result<void> write(Database& db, const std::string& sql, Bind bind) {
  Result<Statement> statement = db.prepare(sql);
  if (!statement) return fail(statement.error());
  bind(*statement);
  return statement->run();
}

template <class Row, class Bind, class Read>
Result<std::vector<Row>> read(Database& db, const std::string& sql, Bind bind, Read read_row) {
  Result<Statement> statement = db.prepare(sql);
  if (!statement) return fail(statement.error());
  bind(*statement);
  std::vector<Row> rows;
  while (true) {
    const Result<bool> more = statement->step();
    if (!more) return fail(more.error());
    if (!*more) return rows;
    Result<Row> row = read_row(*statement);
    if (!row) return fail(row.error());
    rows.push_back(std::move(*row));
  }
}

Result<std::uint64_t> next_seq(Database& db, const char* table, const std::string& run) {
  Result<Statement> statement =
      db.prepare(fmt::format("SELECT COALESCE(MAX(seq), 0) + 1 FROM {} WHERE run = ?1", table));
  if (!statement) return fail(statement.error());
  statement->bind(1, run);
  const Result<bool> row = statement->step();
  if (!row) return fail(row.error());
  return static_cast<std::uint64_t>(statement->number(0));
}

Result<void> SqliteJournal::begin_run(const RunRecord& run) {
  return ledger_.write(Durability::full, [&](Database& db) -> Result<void> {
    Result<void> written = write(
        db,
        "INSERT INTO runs(id, verb, playbook_path, playbook_text, parameters, started) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
        [&](Statement& s) {
          s.bind(1, run.id).bind(2, run.verb).bind(3, run.playbook_path).bind(4, run.playbook_text);
          s.bind(5, dump(run.parameters)).bind(6, to_milliseconds(run.started));
        });
    if (!written) return fail(wrap(written.error(), "beginning run " + run.id));
    return {};
  });
}

Result<void> SqliteJournal::finish_run(const std::string& run, int exit_code, const std::string& sentence,
                                       TimePoint when) {
  return ledger_.write(Durability::full, [&](Database& db) -> Result<void> {
    Result<void> written =
        write(db, "UPDATE runs SET finished = ?2, exit_code = ?3, sentence = ?4 WHERE id = ?1", [&](Statement& s) {
          s.bind(1, run).bind(2, to_milliseconds(when));
          s.bind(3, static_cast<std::int64_t>(exit_code)).bind(4, sentence);
        });
    if (!written) return written;
    if (db.changes() == 0) return fail(ErrorKind::io, "the journal knows no run " + run);
    return {};
  });
}

constexpr const char* run_columns =
    "SELECT id, verb, playbook_path, playbook_text, parameters, started, finished, exit_code, sentence FROM runs ";

Result<RunRecord> run_of(const Statement& row) {
  RunRecord run;
  run.id = row.text(0);
  run.verb = row.text(1);
  run.playbook_path = row.text(2);
  run.playbook_text = row.text(3);
  Result<Value> parameters = parse_column(row, 4);
  if (!parameters) return fail(parameters.error());
  run.parameters = std::move(*parameters);
  run.started = from_milliseconds(row.number(5));
  if (!row.is_null(6)) run.finished = from_milliseconds(row.number(6));
  if (!row.is_null(7)) run.exit_code = static_cast<int>(row.number(7));
  run.sentence = row.text(8);
  return run;
}

Result<std::optional<RunRecord>> SqliteJournal::find_run(const std::string& wanted) {
  return ledger_.read([&](Database& db) -> Result<std::optional<RunRecord>> {
    const bool last = wanted.empty() || wanted == "last";
    Result<std::vector<RunRecord>> found =
        last ? read<RunRecord>(
                   db, std::string(run_columns) + "ORDER BY started DESC, id DESC LIMIT 1", [](Statement&) {}, run_of)
             : read<RunRecord>(
                   db, std::string(run_columns) + "WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id",
                   [&](Statement& s) { s.bind(1, wanted); }, run_of);
    if (!found) return fail(found.error());
    return pick_run(std::move(*found), wanted);
  });
}

Result<std::vector<RunRecord>> SqliteJournal::runs(std::size_t newest) {
  return ledger_.read([&](Database& db) -> Result<std::vector<RunRecord>> {
    return read<RunRecord>(
        db, std::string(run_columns) + "ORDER BY started DESC, id DESC LIMIT ?1",
        [&](Statement& s) { s.bind(1, static_cast<std::int64_t>(newest)); }, run_of);
  });
}

Result<std::uint64_t> SqliteJournal::append(const Event& event) {
  return ledger_.write(Durability::record, [&](Database& db) -> Result<std::uint64_t> {
    const Result<std::uint64_t> seq = next_seq(db, "events", event.run);
    if (!seq) return seq;
    Result<void> written =
        write(db, "INSERT INTO events(run, seq, time, type, host, step, data) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
              [&](Statement& s) {
                s.bind(1, event.run).bind(2, static_cast<std::int64_t>(*seq)).bind(3, to_milliseconds(event.time));
                s.bind(4, to_string(event.type)).bind(5, event.host).bind(6, event.step).bind(7, dump(event.data));
              });
    if (!written) return fail(wrap(written.error(), "appending an event"));
    return *seq;
  });
}

Result<std::vector<Event>> SqliteJournal::events(const std::string& run) {
  return ledger_.read([&](Database& db) -> Result<std::vector<Event>> {
    return read<Event>(
        db, "SELECT seq, time, type, host, step, data FROM events WHERE run = ?1 ORDER BY seq",
        [&](Statement& s) { s.bind(1, run); },
        [&](const Statement& row) -> Result<Event> {
          Event event;
          event.run = run;
          event.seq = static_cast<std::uint64_t>(row.number(0));
          event.time = from_milliseconds(row.number(1));
          const std::optional<EventType> type = event_type(row.text(2));
          if (!type) return fail(ErrorKind::io, "unknown event in the journal: " + row.text(2));
          event.type = *type;
          event.host = row.text(3);
          event.step = row.text(4);
          Result<Value> data = parse_column(row, 5);
          if (!data) return fail(data.error());
          event.data = std::move(*data);
          return event;
        });
  });
}

Result<void> SqliteJournal::put_step(const std::string& run, const StepRecord& step) {
  return ledger_.write(Durability::process, [&](Database& db) -> Result<void> {
    Result<void> written =
        write(db,
              "INSERT INTO steps(run, host, step, position, state, inputs, outputs) VALUES(?1, ?2, ?3, "
              "(SELECT COALESCE(MAX(position), 0) + 1 FROM steps WHERE run = ?1), ?4, ?5, ?6) "
              "ON CONFLICT(run, host, step) DO UPDATE SET state = ?4, inputs = ?5, outputs = ?6",
              [&](Statement& s) {
                s.bind(1, run).bind(2, step.host).bind(3, step.step).bind(4, step.state);
                s.bind(5, dump(step.inputs)).bind(6, dump(step.outputs));
              });
    if (!written) return fail(wrap(written.error(), "keeping step " + step.step));
    return {};
  });
}

Result<std::vector<StepRecord>> SqliteJournal::steps(const std::string& run) {
  return ledger_.read([&](Database& db) -> Result<std::vector<StepRecord>> {
    return read<StepRecord>(
        db, "SELECT host, step, state, inputs, outputs FROM steps WHERE run = ?1 ORDER BY position",
        [&](Statement& s) { s.bind(1, run); },
        [](const Statement& row) -> Result<StepRecord> {
          Result<Value> inputs = parse_column(row, 3);
          if (!inputs) return fail(inputs.error());
          Result<Value> outputs = parse_column(row, 4);
          if (!outputs) return fail(outputs.error());
          return StepRecord{row.text(0), row.text(1), row.text(2), std::move(*inputs), std::move(*outputs)};
        });
  });
}

Result<void> insert_undo(Database& db, const std::string& run, const UndoRecord& undo, std::uint64_t seq) {
  Result<void> written =
      write(db,
            "INSERT INTO undos(run, seq, host, node, step, title, undo_title, script, remote_dir, state, completed) "
            "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            [&](Statement& s) {
              s.bind(1, run).bind(2, static_cast<std::int64_t>(seq)).bind(3, undo.host).bind(4, dump(undo.node));
              s.bind(5, undo.step).bind(6, undo.title).bind(7, undo.undo_title).bind(8, undo.script);
              s.bind(9, replace_seq(undo.remote_dir, seq)).bind(10, to_string(undo.state));
              s.bind(11, static_cast<std::int64_t>(undo.completed));
            });
  if (!written) return fail(wrap(written.error(), "recording how to undo: " + undo.title));
  return {};
}

Result<std::uint64_t> SqliteJournal::add_undo(const std::string& run, const UndoRecord& undo) {
  Result<std::vector<std::uint64_t>> seqs = add_undos(run, {undo});
  if (!seqs) return fail(seqs.error());
  return seqs->front();
}

Result<std::vector<std::uint64_t>> SqliteJournal::add_undos(const std::string& run,
                                                            const std::vector<UndoRecord>& undos) {
  return ledger_.write(Durability::full, [&](Database& db) -> Result<std::vector<std::uint64_t>> {
    const Result<std::uint64_t> first = next_seq(db, "undos", run);
    if (!first) return fail(first.error());
    if (Result<void> all = db.run("SAVEPOINT undos"); !all) return fail(all.error());
    std::vector<std::uint64_t> seqs;
    for (const UndoRecord& undo : undos) {
      seqs.push_back(*first + seqs.size());
      if (Result<void> written = insert_undo(db, run, undo, seqs.back()); !written) {
        static_cast<void>(db.run("ROLLBACK TO undos"));
        return fail(written.error());
      }
    }
    if (Result<void> all = db.run("RELEASE undos"); !all) return fail(all.error());
    return seqs;
  });
}

Result<void> SqliteJournal::set_undo_state(const std::string& run, std::uint64_t seq, UndoState state) {
  const bool completes = state == UndoState::done;
  // A "done" that a power cut loses leaves "pending", and then the node is asked how the action ended.
  return ledger_.write(completes ? Durability::process : Durability::full, [&](Database& db) -> Result<void> {
    Result<void> written =
        write(db,
              completes ? "UPDATE undos SET state = ?3, completed = CASE completed WHEN 0 THEN "
                          "(SELECT MAX(completed) + 1 FROM undos WHERE run = ?1) ELSE completed END "
                          "WHERE run = ?1 AND seq = ?2"
                        : "UPDATE undos SET state = ?3 WHERE run = ?1 AND seq = ?2",
              [&](Statement& s) { s.bind(1, run).bind(2, static_cast<std::int64_t>(seq)).bind(3, to_string(state)); });
    if (!written) return written;
    if (db.changes() == 0) return fail(ErrorKind::io, fmt::format("run {} has no undo record {}", run, seq));
    return {};
  });
}

Result<std::vector<UndoRecord>> SqliteJournal::undos(const std::string& run) {
  return ledger_.read([&](Database& db) -> Result<std::vector<UndoRecord>> {
    return read<UndoRecord>(
        db,
        "SELECT seq, host, node, step, title, undo_title, script, remote_dir, state, completed FROM undos "
        "WHERE run = ?1 ORDER BY seq",
        [&](Statement& s) { s.bind(1, run); },
        [](const Statement& row) -> Result<UndoRecord> {
          UndoRecord undo;
          undo.seq = static_cast<std::uint64_t>(row.number(0));
          undo.host = row.text(1);
          Result<Value> node = parse_column(row, 2);
          if (!node) return fail(node.error());
          undo.node = std::move(*node);
          undo.step = row.text(3);
          undo.title = row.text(4);
          undo.undo_title = row.text(5);
          undo.script = row.text(6);
          undo.remote_dir = row.text(7);
          const std::optional<UndoState> state = undo_state(row.text(8));
          if (!state) return fail(ErrorKind::io, "unknown undo state in the journal: " + row.text(8));
          undo.state = *state;
          undo.completed = static_cast<std::uint64_t>(row.number(9));
          return undo;
        });
  });
}

Result<void> SqliteJournal::lock(const LockRecord& wanted) {
  return ledger_.write(Durability::full, [&](Database& db) -> Result<void> {
    struct Held {
      LockRecord record;
      ProcessIdentity process;
    };
    Result<std::vector<Held>> held = read<Held>(
        db, "SELECT name, holder, why, since, machine, boot, pid_namespace, pid, start FROM locks WHERE name = ?1",
        [&](Statement& s) { s.bind(1, wanted.name); },
        [](const Statement& row) -> Result<Held> {
          return Held{{row.text(0), row.text(1), row.text(2), from_milliseconds(row.number(3)), row.text(4).empty()},
                      {row.text(4), row.text(5), row.text(6), static_cast<long>(row.number(7)), row.text(8)}};
        });
    if (!held) return fail(held.error());
    if (!held->empty() && held->front().record.holder != wanted.holder &&
        liveness(held->front().process) != Liveness::dead) {
      return fail(lock_held(held->front().record));
    }
    // Of no process: whether that lives is never known.
    const ProcessIdentity self = wanted.by_hand ? ProcessIdentity{} : this_process();
    Result<void> written = write(
        db,
        "INSERT OR REPLACE INTO locks(name, holder, why, since, machine, boot, pid_namespace, pid, start) "
        "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        [&](Statement& s) {
          s.bind(1, wanted.name).bind(2, wanted.holder).bind(3, wanted.why).bind(4, to_milliseconds(wanted.since));
          s.bind(5, self.machine).bind(6, self.boot).bind(7, self.pid_namespace);
          s.bind(8, static_cast<std::int64_t>(self.pid)).bind(9, self.start);
        });
    if (!written) return written;
    return {};
  });
}

Result<void> SqliteJournal::unlock(const std::string& name, const std::string& holder) {
  return ledger_.write(Durability::process, [&](Database& db) -> Result<void> {
    Result<void> written = write(db, "DELETE FROM locks WHERE name = ?1 AND holder = ?2",
                                 [&](Statement& s) { s.bind(1, name).bind(2, holder); });
    if (!written) return written;
    return {};
  });
}

Result<std::vector<LockRecord>> SqliteJournal::locks() {
  return ledger_.read([&](Database& db) -> Result<std::vector<LockRecord>> {
    return read<LockRecord>(
        db, "SELECT name, holder, why, since, machine, boot, pid_namespace, pid, start FROM locks ORDER BY name",
        [](Statement&) {},
        [](const Statement& row) -> Result<LockRecord> {
          const bool by_hand = row.text(4).empty();
          const ProcessIdentity process{row.text(4), row.text(5), row.text(6), static_cast<long>(row.number(7)),
                                        row.text(8)};
          return LockRecord{row.text(0), row.text(1),
                            row.text(2), from_milliseconds(row.number(3)),
                            by_hand,     by_hand ? Liveness::unknown : liveness(process)};
        });
  });
}

Result<EvidenceRecord> SqliteJournal::keep(const std::string& run, const std::string& host, const std::string& step,
                                           const std::string& name, std::string_view bytes) {
  const std::string folder =
      fmt::format("{}/evidence/{}/{}/{}", directory_, path_component(run), path_component(host), path_component(step));
  Result<std::string> path = write_evidence(folder, path_component(name), bytes);
  if (!path) return fail(path.error());
  const EvidenceRecord record{run, host, step, path->substr(path->rfind('/') + 1), *path, bytes.size()};
  return ledger_.write(Durability::full, [&](Database& db) -> Result<EvidenceRecord> {
    Result<void> written =
        write(db, "INSERT INTO evidence(run, host, step, name, path, bytes) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
              [&](Statement& s) {
                s.bind(1, run).bind(2, host).bind(3, step).bind(4, record.name).bind(5, record.path);
                s.bind(6, static_cast<std::int64_t>(record.bytes));
              });
    if (!written) return fail(written.error());
    return record;
  });
}

Result<std::vector<EvidenceRecord>> SqliteJournal::evidence(const std::string& run) {
  return ledger_.read([&](Database& db) -> Result<std::vector<EvidenceRecord>> {
    return read<EvidenceRecord>(
        db, "SELECT host, step, name, path, bytes FROM evidence WHERE run = ?1 ORDER BY id",
        [&](Statement& s) { s.bind(1, run); },
        [&](const Statement& row) -> Result<EvidenceRecord> {
          return EvidenceRecord{run,         row.text(0), row.text(1),
                                row.text(2), row.text(3), static_cast<std::uint64_t>(row.number(4))};
        });
  });
}

// SQLite gives its -wal and -shm files the mode of the database, so the file is made first, private.
Result<void> make_private_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return fail(ErrorKind::io, fmt::format("opening {}: {}", path, std::strerror(errno)));
  close(file);
  return {};
}

}  // namespace

Result<std::unique_ptr<Journal>> open_sqlite_journal(const std::string& directory) {
  const auto explain = [&](Error error) {
    if (error.hint.empty()) error.hint = "the state directory is set by --state or XDG_STATE_HOME";
    return fail(wrap(std::move(error), "opening the journal in " + directory));
  };
  if (Result<void> made = make_private_directory(directory); !made) return explain(made.error());
  const std::string path = directory + "/journal.db";
  if (Result<void> made = make_private_file(path); !made) return explain(made.error());
  Result<std::unique_ptr<Database>> database = Database::open(path);
  if (!database) return explain(database.error());
  if (Result<void> usable = ensure_schema(**database, path); !usable) return explain(usable.error());
  return std::make_unique<SqliteJournal>(directory, std::move(*database), path);
}

}  // namespace millwright

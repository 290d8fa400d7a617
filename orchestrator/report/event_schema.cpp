#include "orchestrator/report/event_schema.hpp"

#include "orchestrator/base/event.hpp"

namespace millwright {
namespace {

// What `data` holds, by the type of the event. Append only, as event.hpp says.
constexpr const char* kDefinitions = R"json({
  "texts": {"type": "array", "items": {"type": "string"}},
  "count": {"type": "integer", "minimum": 0},
  "error": {
    "type": "object",
    "required": ["kind", "message", "hint"],
    "properties": {
      "kind": {"enum": ["usage", "invalid", "connect", "auth", "host_key", "timeout", "remote_exit", "transfer",
                        "refused", "stale", "busy", "failed_test", "interrupted", "io", "internal"]},
      "message": {"type": "string"},
      "hint": {"type": "string"},
      "context": {"$ref": "#/$defs/texts"},
      "class": {"type": "string"},
      "exit_code": {"type": "integer"},
      "detail": {"type": "string"},
      "where": {"type": "string", "pattern": ":[0-9]+:[0-9]+$"}
    }
  },
  "verdict": {
    "type": "object",
    "required": ["kind", "class", "sentence"],
    "properties": {
      "kind": {"enum": ["pass", "degraded", "fail", "inconclusive"]},
      "class": {"type": "string"},
      "sentence": {"type": "string"}
    }
  },
  "action": {
    "type": "object",
    "required": ["title", "undo_title", "reversible", "script", "undo", "files", "marks"],
    "properties": {
      "title": {"type": "string"},
      "undo_title": {"type": "string"},
      "reversible": {"type": "boolean"},
      "script": {"type": "string"},
      "undo": {"type": "string"},
      "files": {"type": "array", "items": {"$ref": "#/$defs/file"}},
      "marks": {"type": "array", "items": {"enum": ["destructive", "may_drop_connection", "needs_reboot"]}}
    }
  },
  "file": {
    "type": "object",
    "required": ["path", "mode"],
    "properties": {
      "path": {"type": "string"},
      "mode": {"type": "string"},
      "bytes": {"$ref": "#/$defs/count"},
      "from": {"type": "string"},
      "sha256": {"type": "string"},
      "written": {"type": "integer"}
    }
  },
  "run_started": {
    "type": "object",
    "required": ["playbook", "hosts", "steps", "verb", "inputs"],
    "properties": {
      "playbook": {"type": "string"},
      "hosts": {"$ref": "#/$defs/texts"},
      "steps": {
        "type": "array",
        "items": {
          "type": "object",
          "required": ["id", "uses", "needs", "in"],
          "properties": {
            "id": {"type": "string"},
            "name": {"type": "string"},
            "uses": {"type": "string"},
            "needs": {"$ref": "#/$defs/texts"},
            "in": {"type": "string"}
          }
        }
      },
      "verb": {"enum": ["apply", "plan", "resume", "rollback", "drift", "verify"]},
      "inventory": {"$ref": "#/$defs/texts"},
      "inputs": {"type": "object"}
    }
  },
  "host_connected": {
    "type": "object",
    "required": ["address", "milliseconds"],
    "properties": {"address": {"type": "string"}, "milliseconds": {"$ref": "#/$defs/count"}}
  },
  "host_unreachable": {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"$ref": "#/$defs/error"}}
  },
  "step_started": {
    "type": "object",
    "required": ["uses", "attempt"],
    "properties": {"uses": {"type": "string"}, "attempt": {"type": "integer", "minimum": 1}}
  },
  "step_planned": {
    "type": "object",
    "required": ["state", "summary", "diff", "actions"],
    "properties": {
      "state": {"enum": ["ok", "change", "unknown"]},
      "summary": {"type": "string"},
      "diff": {"type": "string"},
      "actions": {"type": "array", "items": {"$ref": "#/$defs/action"}},
      "answers": {"type": "object", "additionalProperties": {"type": "string"}},
      "item": {"$ref": "#/$defs/count"}
    }
  },
  "action_started": {
    "type": "object",
    "required": ["index", "title", "undo_title"],
    "properties": {
      "index": {"$ref": "#/$defs/count"},
      "title": {"type": "string"},
      "undo_title": {"type": "string"}
    }
  },
  "action_finished": {
    "type": "object",
    "required": ["index", "title", "undo_title", "exit_code", "milliseconds"],
    "properties": {
      "index": {"$ref": "#/$defs/count"},
      "title": {"type": "string"},
      "undo_title": {"type": "string"},
      "exit_code": {"type": "integer"},
      "milliseconds": {"$ref": "#/$defs/count"},
      "stale": {"type": "boolean"}
    }
  },
  "step_progress": {
    "type": "object",
    "required": ["text", "fraction"],
    "properties": {"text": {"type": "string"}, "fraction": {"type": ["number", "null"], "minimum": 0, "maximum": 1}}
  },
  "step_output": {
    "type": "object",
    "required": ["stream", "text"],
    "properties": {"stream": {"enum": ["out", "err"]}, "text": {"type": "string"}}
  },
  "step_finished": {
    "type": "object",
    "required": ["state", "summary", "milliseconds", "outputs"],
    "properties": {
      "state": {"enum": ["ok", "changed", "failed", "refused", "skipped", "unreachable", "cancelled", "unknown"]},
      "summary": {"type": "string"},
      "milliseconds": {"$ref": "#/$defs/count"},
      "outputs": {"type": ["object", "array"]},
      "ignored": {"type": "boolean"},
      "error": {"$ref": "#/$defs/error"},
      "verdict": {"$ref": "#/$defs/verdict"}
    }
  },
  "probe_finished": {
    "type": "object",
    "required": ["name", "verdict", "class", "summary", "seconds", "tokens", "expected", "got", "evidence"],
    "properties": {
      "name": {"type": "string"},
      "verdict": {"enum": ["pass", "degraded", "fail", "inconclusive", "skipped"]},
      "class": {"type": "string"},
      "summary": {"type": "string"},
      "seconds": {"type": "number", "minimum": 0},
      "tokens": {"type": ["integer", "null"]},
      "expected": {"type": ["string", "null"]},
      "got": {"type": ["string", "null"]},
      "evidence": {"type": ["string", "null"]}
    }
  },
  "evidence_kept": {
    "type": "object",
    "required": ["name", "path", "bytes"],
    "properties": {"name": {"type": "string"}, "path": {"type": "string"}, "bytes": {"$ref": "#/$defs/count"}}
  },
  "retry": {
    "type": "object",
    "required": ["attempt", "of", "delay_ms", "reason"],
    "properties": {
      "attempt": {"type": "integer", "minimum": 1},
      "of": {"type": "integer", "minimum": 1},
      "delay_ms": {"$ref": "#/$defs/count"},
      "reason": {"type": "string"}
    }
  },
  "remedy": {
    "type": "object",
    "required": ["attempt", "of", "id", "title", "class", "changes"],
    "properties": {
      "attempt": {"type": "integer", "minimum": 1},
      "of": {"type": "integer", "minimum": 1},
      "id": {"type": "string"},
      "title": {"type": "string"},
      "class": {"type": "string"},
      "changes": {"type": "object"},
      "worked_on": {"type": "string"}
    }
  },
  "remedy_result": {
    "type": "object",
    "required": ["id", "cured"],
    "properties": {"id": {"type": "string"}, "cured": {"type": "boolean"}}
  },
  "rollback_started": {
    "type": "object",
    "required": ["reason", "actions"],
    "properties": {"reason": {"type": "string"}, "actions": {"$ref": "#/$defs/count"}}
  },
  "undo_started": {
    "type": "object",
    "required": ["seq", "title"],
    "properties": {"seq": {"type": "integer", "minimum": 1}, "title": {"type": "string"}}
  },
  "undo_finished": {
    "type": "object",
    "required": ["seq", "title", "state"],
    "properties": {
      "seq": {"type": "integer", "minimum": 1},
      "title": {"type": "string"},
      "state": {"enum": ["undone", "refused", "failed", "irreversible"]},
      "error": {"type": "string"}
    }
  },
  "rollback_finished": {
    "type": "object",
    "required": ["undone", "remaining"],
    "properties": {"undone": {"$ref": "#/$defs/count"}, "remaining": {"$ref": "#/$defs/texts"}}
  },
  "verified_after_rollback": {
    "type": "object",
    "required": ["what", "state", "sentence"],
    "properties": {
      "what": {"type": "string"},
      "state": {"enum": ["pass", "degraded", "fail", "inconclusive"]},
      "sentence": {"type": "string"}
    }
  },
  "warning": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
  "interrupted": {"type": "object", "required": ["how"], "properties": {"how": {"enum": ["once", "twice"]}}},
  "run_finished": {
    "type": "object",
    "required": ["exit_code", "sentence", "counts", "milliseconds", "remaining", "cured_by", "endpoint"],
    "properties": {
      "exit_code": {"type": "integer"},
      "sentence": {"type": "string"},
      "counts": {
        "type": "object",
        "required": ["ok", "changed", "failed", "skipped", "unknown", "unreachable"],
        "properties": {
          "ok": {"$ref": "#/$defs/count"},
          "changed": {"$ref": "#/$defs/count"},
          "failed": {"$ref": "#/$defs/count"},
          "ignored": {"$ref": "#/$defs/count"},
          "skipped": {"$ref": "#/$defs/count"},
          "unknown": {"$ref": "#/$defs/count"},
          "unreachable": {"$ref": "#/$defs/count"}
        }
      },
      "milliseconds": {"$ref": "#/$defs/count"},
      "remaining": {"$ref": "#/$defs/texts"},
      "cured_by": {"type": "string"},
      "endpoint": {"type": "string"}
    }
  }
})json";

}  // namespace

Value event_schema() {
  Value types = Value::array();
  Value by_type = Value::array();
  for (int i = static_cast<int>(EventType::run_started); i <= static_cast<int>(EventType::run_finished); ++i) {
    const std::string type(to_string(static_cast<EventType>(i)));
    types.push_back(type);
    by_type.push_back({{"if", {{"properties", {{"type", {{"const", type}}}}}}},
                       {"then", {{"properties", {{"data", {{"$ref", "#/$defs/" + type}}}}}}}});
  }
  const Value text = {{"type", "string"}};
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "An event of a millwright run: one line of --json"},
          {"type", "object"},
          {"required", {"schema_version", "seq", "time", "run", "type", "host", "step", "data"}},
          {"properties",
           {{"schema_version", {{"const", kEventSchemaVersion}}},
            {"seq", {{"type", "integer"}, {"minimum", 0}}},
            {"time", {{"type", "string"}, {"pattern", "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"}}},
            {"run", text},
            {"type", {{"enum", std::move(types)}}},
            {"host", text},
            {"step", text},
            {"data", {{"type", "object"}}}}},
          {"allOf", std::move(by_type)},
          {"$defs", Value::parse(kDefinitions)}};
}

}  // namespace millwright

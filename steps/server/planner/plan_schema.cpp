#include "steps/server/planner/plan_schema.hpp"

#include "steps/server/planner/render.hpp"

namespace millwright::planner {
namespace {

// Append only, as for events.
constexpr const char* kDefinitions = R"json({
  "texts": {"type": "array", "items": {"type": "string"}},
  "count": {"type": "integer", "minimum": 0},
  "range": {
    "type": "object",
    "required": ["low", "mid", "high"],
    "properties": {"low": {"type": "number"}, "mid": {"type": "number"}, "high": {"type": "number"}}
  },
  "decision": {"enum": ["fits", "does_not_fit", "try"]},
  "flag": {
    "type": "object",
    "required": ["name", "value", "reason"],
    "properties": {
      "name": {"type": "string"},
      "value": {"type": ["string", "number", "boolean", "object"]},
      "reason": {"type": "string"}
    }
  },
  "flags": {"type": "array", "items": {"$ref": "#/$defs/flag"}},
  "step": {
    "type": "object",
    "required": ["flags", "decision", "kv_tokens", "headroom_gib"],
    "properties": {
      "flags": {"$ref": "#/$defs/flags"},
      "decision": {"$ref": "#/$defs/decision"},
      "kv_tokens": {"$ref": "#/$defs/count"},
      "max_running_requests": {"$ref": "#/$defs/count"},
      "max_model_len": {"$ref": "#/$defs/count"},
      "headroom_gib": {"type": "number"}
    }
  },
  "invalid": {
    "type": "object",
    "required": ["flag", "message", "hint"],
    "properties": {"flag": {"type": "string"}, "message": {"type": "string"}, "hint": {"type": "string"}}
  },
  "rank": {
    "type": "object",
    "required": ["rank", "gpu", "total_gib", "kv_pool_gib", "weights_gib", "state_gib", "graphs_gib", "activation_gib",
                 "other_gib", "headroom_gib"],
    "properties": {
      "rank": {"$ref": "#/$defs/count"},
      "gpu": {"type": "string"},
      "total_gib": {"type": "number"},
      "kv_pool_gib": {"$ref": "#/$defs/range"},
      "weights_gib": {"$ref": "#/$defs/range"},
      "state_gib": {"$ref": "#/$defs/range"},
      "graphs_gib": {"$ref": "#/$defs/range"},
      "activation_gib": {"$ref": "#/$defs/range"},
      "other_gib": {"$ref": "#/$defs/range"},
      "headroom_gib": {"$ref": "#/$defs/range"}
    }
  },
  "failure": {
    "type": "object",
    "required": ["where", "class", "sentence", "line", "line_number", "numbers"],
    "properties": {
      "where": {"type": "string"},
      "class": {"type": "string"},
      "sentence": {"type": "string"},
      "line": {"type": "string"},
      "line_number": {"$ref": "#/$defs/count"},
      "numbers": {"type": "object", "additionalProperties": {"type": "number"}}
    }
  },
  "log": {
    "type": "object",
    "required": ["file", "engine", "ready", "reached", "measured", "failure"],
    "properties": {
      "file": {"type": "string"},
      "engine": {"type": "string"},
      "engine_version": {"type": "string"},
      "model": {"type": "string"},
      "ready": {"type": "boolean"},
      "reached": {"type": "string"},
      "measured": {"type": "object", "additionalProperties": {"type": "number"}},
      "failure": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/failure"}]},
      "warnings": {"$ref": "#/$defs/texts"},
      "assumed_version": {
        "type": "object",
        "required": ["version", "possible", "figures_agree"],
        "properties": {
          "version": {"type": "string"},
          "possible": {"$ref": "#/$defs/texts"},
          "figures_agree": {"type": "boolean"}
        }
      }
    }
  },
  "compared": {
    "type": "object",
    "required": ["term", "measured", "predicted"],
    "properties": {
      "term": {"type": "string"},
      "measured": {"type": "number"},
      "predicted": {"type": "number"},
      "remark": {"type": "string"}
    }
  },
  "replan": {
    "type": "object",
    "required": ["compared", "arithmetic", "next", "opposite", "verdict"],
    "properties": {
      "compared": {"type": "array", "items": {"$ref": "#/$defs/compared"}},
      "arithmetic": {"$ref": "#/$defs/texts"},
      "next": {"type": "array", "items": {"$ref": "#/$defs/step"}},
      "opposite": {"type": "boolean"},
      "verdict": {"type": "string"}
    }
  },
  "finding": {
    "type": "object",
    "required": ["id", "class", "severity", "sentence", "line", "line_number", "times"],
    "properties": {
      "id": {"type": "string"},
      "class": {"type": "string"},
      "severity": {"type": "string"},
      "sentence": {"type": "string"},
      "line": {"type": "string"},
      "line_number": {"$ref": "#/$defs/count"},
      "times": {"$ref": "#/$defs/count"}
    }
  }
})json";

constexpr const char* kProperties = R"json({
  "engine": {"type": "string"},
  "engine_version": {"type": "string"},
  "model": {"type": "string"},
  "weights_from": {"type": "string"},
  "decision": {"$ref": "#/$defs/decision"},
  "sentence": {"type": "string"},
  "tensor_parallel": {"type": "integer", "minimum": 1},
  "pipeline_parallel": {"type": "integer", "minimum": 1},
  "replicas": {"type": "integer", "minimum": 1},
  "kv_tokens": {"$ref": "#/$defs/range"},
  "kv_pool_gib": {"$ref": "#/$defs/range"},
  "weights_gib": {"$ref": "#/$defs/range"},
  "state_gib": {"$ref": "#/$defs/range"},
  "graphs_gib": {"$ref": "#/$defs/range"},
  "activation_gib": {"$ref": "#/$defs/range"},
  "other_gib": {"$ref": "#/$defs/range"},
  "headroom_gib": {"$ref": "#/$defs/range"},
  "ranks": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/rank"}},
  "state_slots": {"$ref": "#/$defs/count"},
  "max_running_requests": {"$ref": "#/$defs/count"},
  "max_model_len": {"$ref": "#/$defs/count"},
  "missing_gib": {"type": "number"},
  "fraction": {"type": "number"},
  "flags": {"$ref": "#/$defs/flags"},
  "ladder": {"type": "array", "items": {"$ref": "#/$defs/step"}},
  "invalid": {"type": "array", "items": {"$ref": "#/$defs/invalid"}},
  "notes": {"$ref": "#/$defs/texts"},
  "engine_says": {"type": "string"},
  "launch": {"type": "string"},
  "log": {"$ref": "#/$defs/log"},
  "replan": {"$ref": "#/$defs/replan"},
  "findings": {"type": "array", "items": {"$ref": "#/$defs/finding"}},
  "verdict": {"type": "string"}
})json";

}  // namespace

Value plan_schema() {
  Value properties = Value::parse(kProperties);
  properties["schema_version"] = {{"const", kPlanSchemaVersion}};
  const Value planned = {"decision",   "sentence", "tensor_parallel",      "pipeline_parallel", "replicas",
                         "kv_tokens",  "ranks",    "kv_pool_gib",          "weights_gib",       "state_gib",
                         "graphs_gib", "flags",    "activation_gib",       "other_gib",         "headroom_gib",
                         "ladder",     "invalid",  "max_running_requests", "max_model_len",     "missing_gib"};
  // A log without a model or GPUs is only read.
  const Value only_read = {"log", "findings", "verdict"};
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "What millwright fit --json prints"},
          {"type", "object"},
          {"required", {"schema_version"}},
          {"properties", std::move(properties)},
          {"anyOf", {{{"required", planned}}, {{"required", only_read}}}},
          {"$defs", Value::parse(kDefinitions)}};
}

}  // namespace millwright::planner

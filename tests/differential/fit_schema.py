#!/usr/bin/python3
"""Holds what `millwright fit --json` prints against its schema and docs/fit.md: fit_schema.py MILLWRIGHT

Answers of every engine, of every decision and of every log of the corpus are valid under `millwright schema fit`, read by
a real validator, with no key that the schema does not know; every key of it is explained on the page, or seen there.
"""
import json
import pathlib
import re
import subprocess
import sys

import jsonschema

from events import closed

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/fit.md"
LOGS = ROOT / "tests/data/planner/logs"
QUESTIONS = [
    "Qwen/Qwen3.6-27B --gpus 2xA6000 --engine sglang@0.5.9 --set mem-fraction-static=0.85 --set max-running-requests=48 "
    "--set speculative-algorithm=NEXTN",
    "Qwen/Qwen3-8B --gpus H100 --engine vllm --context 32k --concurrency 16",
    "Qwen/Qwen3-8B --gpus H100 --engine vllm --set max-model-len=auto --set no-enable-prefix-caching",
    'Qwen/Qwen3-8B --gpus H100 --engine vllm --set speculative-config={"method":"ngram","num_speculative_tokens":3}',
    "Qwen/Qwen3-8B --gpus 8GiB --engine vllm@0.19.0",
    "Qwen/Qwen3-8B --gpus 19GiB --engine vllm --context 8k",
    "Qwen/Qwen3-8B --gpus rtx-3090:23.6GiB*2 --engine llama.cpp --set ctx-size=65536",
    "openai/gpt-oss-120b --gpus 4xH100 --engine sglang",
    "Qwen/Qwen3-8B --gpus H100 --engine sglang --set no-such-flag=1 --set page-size=x",
    "Qwen/Qwen3-8B --gpus 3xH100 --engine vllm --set tensor-parallel-size=3",
]
MODELS = {"sglang": "Qwen/Qwen3.6-27B", "vllm": "google/gemma-3-270m", "llama.cpp": "google/gemma-3-270m"}


def answer(program, words):
    done = subprocess.run([program, "fit", "--json", *words], capture_output=True, text=True, check=False, timeout=120)
    if done.returncode not in (0, 2):
        sys.exit(f"fit {' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def answers(program):
    for question in QUESTIONS:
        yield question, answer(program, question.split())
    for log in sorted(LOGS.glob("*.log")):
        engine = next(name for name in MODELS if name in log.name)
        yield f"{log.name} alone", answer(program, ["--engine", engine, "--from-log", str(log)])
        known = [MODELS[engine], "--gpus", "2x48GiB", "--engine", engine, "--from-log", str(log)]
        yield f"{log.name} with a model", answer(program, known)


def wrong_answers(schema, found):
    validator = jsonschema.Draft202012Validator(schema)
    return [f"{name}: {error.message[:300]}\n  at {list(error.absolute_path)}" for name, one in found for error in validator.iter_errors(one)]


def main():
    program = sys.argv[1]
    printed = subprocess.run([program, "schema", "fit"], check=True, capture_output=True, text=True, timeout=60).stdout
    schema = json.loads(printed)
    jsonschema.Draft202012Validator.check_schema(schema)
    strict = closed(schema)
    found = list(answers(program))
    wrong = wrong_answers(strict, found)
    missing = {"fits", "does_not_fit", "try"} - {one.get("decision") for _, one in found}
    wrong += [f"no answer is {decision}" for decision in sorted(missing)]
    never = set(schema["properties"]) - {key for _, one in found for key in one}
    wrong += [f"no answer has {key}" for key in sorted(never)]
    wrong += [f"{PAGE.name} does not explain {key}" for key in schema["properties"] if not re.search(rf"`{key}(\[\])?`", PAGE.read_text())]
    for spoilt in ({"decision": "perhaps"}, {"kv_token": 1}, {"schema_version": 99}, {"flags": [{"name": "x"}]}):
        if not wrong_answers(strict, [("spoilt", {**found[0][1], **spoilt})]):
            wrong.append(f"{spoilt} passes: the check checks nothing")
    print("\n".join(wrong[:20]) or f"{len(found)} answers are as the schema and {PAGE.name} say")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

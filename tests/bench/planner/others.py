#!/usr/bin/env python3
"""What other calculators say of the tokens that a pool holds, on the rows of memory_groundtruth.csv that `run.py` checks.

Their own functions are called with the config of the row's model and its observed pool: hf-mem 0.5.6
(compute_safetensors_kv_cache_size) and modelinfo-cli 1.4.4 (extract_architecture and its formula), as installed by
pip into the Python that runs this. Prints a row each, and the median and worst error; docs/fit.md has the table.

usage: others.py MILLWRIGHT
"""
import csv
import json
import pathlib
import statistics
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
SHAPES = HERE.parents[2] / "playbooks/knowledge/planner/model_shapes.yml"
CONTEXT = 8192  # of the request whose bytes are asked for; the calculators are linear in it


def hf_mem(config, kv_bytes):
    from hf_mem.safetensors.kv_cache import compute_safetensors_kv_cache_size
    return compute_safetensors_kv_cache_size(config, {1: "F8_E4M3", 2: "BF16", 4: "F32"}[kv_bytes], CONTEXT) / CONTEXT


def modelinfo(config, kv_bytes):
    from modelinfo.architecture import extract_architecture
    layers, width, _ = extract_architecture({}, config)
    return 2 * layers * width * 2  # "Assume FP16 (2 bytes) for KV cache"


def config_of(shapes, name):
    """The config of a known model, with the nested language model's as the calculators' command lines take it."""
    for row in shapes["models"]:
        for known in row["names"]:
            if name.lower().startswith((known.lower().rstrip("*"), known.split("/")[-1].lower().rstrip("*"))):
                return row["config"].get("text_config", row["config"])
    return None


def main():
    program = sys.argv[1]
    shapes = yaml.safe_load(SHAPES.read_text())
    rows = yaml.safe_load((HERE / "rows.yml").read_text())["rows"]
    errors = {"hf-mem": [], "modelinfo-cli": [], "millwright": []}
    for observed in csv.DictReader((HERE / "memory_groundtruth.csv").open()):
        row = rows.get(observed["id"], {})
        if not row.get("check") or "tokens" not in row["check"]:
            continue
        ask, config = row["ask"], config_of(shapes, row["ask"]["model"])
        pool, tokens = float(observed["kv_pool_gib_per_gpu"]), float(observed["kv_tokens"].replace(",", ""))
        flags = ask.get("set", []) + ask.get("more", [])
        words = [word for flag in flags for word in ("--set", flag)]
        done = subprocess.run([program, "fit", ask["model"], "--engine", ask["engine"], "--gpus", ask["gpus"], "--given",
                               f"kv_pool_gib={pool}", "--json", *words], capture_output=True, text=True)
        plan = json.loads(done.stdout)
        ranks = plan["tensor_parallel"]
        kv_bytes = 1 if any(flag.startswith("kv-cache-dtype=fp8") for flag in flags) else 4 if "dtype=float32" in flags else 2
        said = {"millwright": plan["kv_tokens"]["mid"]}
        for name, bytes_of in (("hf-mem", hf_mem), ("modelinfo-cli", modelinfo)):
            try:
                said[name] = pool * ranks * 2**30 / bytes_of(config, kv_bytes)
            except (KeyError, TypeError, ZeroDivisionError) as wrong:
                print(f"{observed['id']}: {name} cannot: {wrong!r}")
        for name, value in said.items():
            errors[name].append(value / tokens - 1)
        print(f"{observed['id']:<5} {ask['model']:<34} observed {tokens:>9.0f}  "
              + "  ".join(f"{name} {value:.0f} ({value / tokens - 1:+.1%})" for name, value in said.items()))
    for name, values in errors.items():
        sizes = [abs(value) for value in values]
        print(f"{name}: {len(values)} rows, median {statistics.median(sizes):.2%}, worst {max(sizes):.1%}, "
              f"over 5 % off {sum(size > 0.05 for size in sizes)}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Holds `millwright fit` against public start-up logs: tests/bench/planner/memory_groundtruth.csv, asked as rows.yml says.

Gates: tokens from the observed pool within 0.3 %; GiB of the pool from config and GPU alone within 1 GiB on average and
5 % in the median on the H100 rows; fits or not right in every row outside a band of 1 GiB. Exit 1 when one is missed.

usage: run.py MILLWRIGHT [--quiet]
"""
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
TOKENS_GATE, KV_MEAN_GATE, KV_MEDIAN_GATE, BAND = 0.003, 1.0, 0.05, 1.0
UNSURE_GATE = 0  # rows outside the band where the likely case is wrong, and the answer is `try`
LOOSE = 0.02  # what follows from figures that the row has rounded or only in part


class Bench:
    def __init__(self, program):
        self.program = program
        self.table, self.missed, self.kv, self.tokens, self.decided = [], [], [], [], []

    def ask(self, row, extra=()):
        ask = row["ask"]
        words = [self.program, "fit", ask["model"], "--gpus", str(ask["gpus"]), "--engine", ask["engine"], "--json"]
        for flag in list(ask.get("set", [])) + list(ask.get("more", [])):
            words += ["--set", flag]
        for term in list(row.get("given", [])) + list(extra):
            words += ["--given", term]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})
        if done.returncode not in (0, 2):
            raise SystemExit(f"{' '.join(words)}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def note(self, name, what, predicted, observed, gate=None, relative=True):
        error = predicted - observed
        share = error / observed if observed else 0.0
        ok = gate is None or abs(share if relative else error) <= gate
        shown = f"{share:+.2%}" if relative else f"{error:+.2f} GiB"
        self.table.append((name, what, f"{predicted:,.2f}", f"{observed:,.2f}", shown, "" if ok else "MISSED"))
        if not ok:
            self.missed.append(f"{name} {what}: {shown}")
        return share, error

    def decide(self, name, answer, expected):
        starts = answer.get("engine_says") is None and not answer["invalid"]
        margin = answer["headroom_gib"]["mid"]
        # vLLM refuses more sequences than blocks for their states: what of the pool lies between the two.
        blocks = answer["state_slots"]
        if blocks and answer["engine"] == "vllm" and (starts or "Mamba cache blocks" in answer["engine_says"]):
            spare = (blocks - answer["max_running_requests"]) * answer["kv_pool_gib"]["mid"] / blocks
            margin = min(margin, spare)
        inside = abs(margin) < BAND
        right = starts == expected
        unsure = not right and answer["decision"] == "try"
        self.decided.append((name, right, inside, unsure))
        word = "right" if right else "inside the band" if inside else "not sure" if unsure else "MISSED"
        self.table.append((name, "fits", f"{answer['decision']} {margin:+.2f}", str(expected), "", word))
        if not right and not inside and not unsure:
            self.missed.append(f"{name}: says {answer['decision']} ({margin:+.2f} GiB), was {expected}")

    def check(self, name, row, seen):
        kinds = row["check"]
        pool, tokens = seen["kv_pool_gib_per_gpu"], seen["kv_tokens"]
        plain = self.ask(row)
        for kind in kinds:
            if kind == "tokens":
                answer = self.ask(row, [f"kv_pool_gib={pool}"])
                self.tokens.append(self.note(name, "tokens from GiB", answer["kv_tokens"]["mid"], float(tokens), TOKENS_GATE)[0])
            elif kind == "tokens_loose":
                answer = self.ask(row, [f"kv_pool_gib={pool}"])
                self.note(name, "tokens from GiB", answer["kv_tokens"]["mid"], float(tokens), LOOSE)
            elif kind == "tokens_config":
                self.note(name, "tokens", plain["kv_tokens"]["mid"], float(tokens), 0 if row.get("exact") else 0.01)
            elif kind in ("kv", "kv_rank0"):
                got = plain["kv_pool_gib"]["mid"] if kind == "kv" else plain["ranks"][0]["kv_pool_gib"]["mid"]
                share, error = self.note(name, "KV GiB from config", got, float(pool), 2 * KV_MEAN_GATE, relative=False)
                if "H100" in seen["gpu"]:
                    self.kv.append((abs(error), abs(share)))
            elif kind in ("tokens_budget", "kv_budget", "tokens_budget_loose"):
                given = [f"pre_gib={row['pre']}", f"post_gib={seen['avail_after_load_gib']}"] if "pre" in row else []
                answer = self.ask(row, given)
                if kind == "kv_budget":
                    self.note(name, "KV GiB from the budget", answer["kv_pool_gib"]["mid"], float(pool), 0.003)
                else:
                    self.note(name, "tokens from the budget", answer["kv_tokens"]["mid"], float(tokens), 0.03 if kind.endswith("loose") else 0.003)
            elif kind == "slots":
                self.note(name, "state slots", plain["state_slots"], float(seen["state_slots"]), 0)
            elif kind == "state":
                self.note(name, "states GiB", plain["state_gib"]["mid"], float(seen["state_gib"]), 0.03)
            elif kind == "kv_exact":
                self.note(name, "KV GiB", plain["kv_pool_gib"]["mid"], float(pool.split("/")[0]), 0.01)
            elif kind == "weights":
                self.note(name, "weights GiB", plain["weights_gib"]["mid"], float(seen["weights_gib_per_gpu"]), 0.07)
            elif kind == "sign":
                got = plain["kv_pool_gib"]["mid"]
                self.note(name, "KV GiB (below zero)", got, float(pool), 0.2, relative=False)
            elif kind == "fits":
                self.decide(name, self.ask(row, [f"pre_gib={row['pre']}", f"post_gib={seen['avail_after_load_gib']}"]) if row.get("given_post") else plain, True)
            elif kind == "fits_not":
                self.decide(name, plain, False)
            elif kind == "invalid":
                right = bool(plain["invalid"])
                self.table.append((name, "refused", plain["invalid"][0]["message"] if right else "nothing", seen["error"], "", "" if right else "MISSED"))
                if not right:
                    self.missed.append(f"{name}: nothing is invalid")
            else:
                raise SystemExit(f"{name}: unknown check {kind}")

    def gates(self):
        mean = statistics.mean(error for error, _ in self.kv)
        median = statistics.median(share for _, share in self.kv)
        worst = max(abs(share) for share in self.tokens)
        outside = [row for row in self.decided if not row[2] or row[1]]
        unsure = [row[0] for row in self.decided if row[3] and not row[2]]
        lines = [f"tokens from GiB: worst {worst:.3%} of {len(self.tokens)} rows (gate {TOKENS_GATE:.1%})",
                 f"KV GiB from config, H100: mean {mean:.2f} GiB (gate {KV_MEAN_GATE}), median {median:.2%} (gate {KV_MEDIAN_GATE:.0%}) of {len(self.kv)} rows",
                 f"fits or not: {sum(r[1] for r in self.decided)} of {len(self.decided)} right; outside the band {sum(r[1] for r in outside)} of {len(outside)}"]
        if unsure:
            lines.append(f"  and says that it is not sure, where the likely case was wrong: {', '.join(unsure)}")
        if len(unsure) > UNSURE_GATE:
            self.missed.append(f"{len(unsure)} rows without a decision")
        if mean > KV_MEAN_GATE or median > KV_MEDIAN_GATE:
            self.missed.append("KV GiB from config on the H100 rows")
        return lines


def main():
    bench = Bench(sys.argv[1])
    rows = yaml.safe_load((HERE / "rows.yml").read_text())["rows"]
    seen = {row["id"]: row for row in csv.DictReader((HERE / "memory_groundtruth.csv").open())}
    if set(rows) != set(seen):
        raise SystemExit(f"rows.yml and the CSV differ: {sorted(set(rows) ^ set(seen))}")
    for name, row in rows.items():
        if "why" not in row:
            bench.check(name, row, seen[name])
    gates = bench.gates()
    widths = [max(len(str(line[at])) for line in bench.table) for at in range(6)]
    print("\n".join("  ".join(str(cell).ljust(width) for cell, width in zip(line, widths)).rstrip() for line in bench.table))
    print("\nnot asked:")
    print("\n".join(f"  {name}: {row['why']}" for name, row in rows.items() if "why" in row))
    print("\nnotes:")
    print("\n".join(f"  {name}: {row['note']}" for name, row in rows.items() if "note" in row))
    print("\n" + "\n".join(gates))
    print("\n".join("MISSED " + one for one in bench.missed) if bench.missed else "all gates hold")
    return 1 if bench.missed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs SGLang's own sizing functions, taken out of its published wheels, over generated cases, and writes down what they
answer: how a budget is split into state slots and tokens, and the automatic memory fraction.

The functions are cut out of the wheels' sources and run with stand-in objects, so neither SGLang nor torch is needed.
unit_planner holds the planner against tests/data/planner/sglang.json.

usage: planner_sglang_record.py WHEELS     (a folder; `pip download --no-deps sglang==VERSION` fills it)
"""
import argparse
import ast
import json
import pathlib
import random
import sys
import textwrap
import types
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPLIT = {  # version: (file, function, function of the ratio)
    "0.5.9": ("sglang/srt/model_executor/model_runner_kv_cache_mixin.py", "handle_max_mamba_cache", None),
    "0.5.11": ("sglang/srt/model_executor/model_runner_kv_cache_mixin.py", "handle_max_mamba_cache", "_calculate_mamba_ratio"),
    "0.5.12": ("sglang/srt/model_executor/model_runner_kv_cache_mixin.py", "handle_max_mamba_cache", "_calculate_mamba_ratio"),
    "0.5.15": ("sglang/srt/model_executor/model_runner_kv_cache_mixin.py", "handle_max_mamba_cache", "_calculate_mamba_ratio"),
    "0.5.23": ("sglang/srt/mem_cache/kv_cache_configurator.py", "_handle_max_mamba_cache", "_calculate_mamba_ratio"),
}
FRACTION = ["0.5.9", "0.5.11", "0.5.12"]
METHODS = ["_handle_gpu_memory_settings", "_generate_cuda_graph_batch_sizes", "_generate_piecewise_cuda_graph_tokens", "adjust_mem_fraction_for_vlm"]
GPUS_MIB = [15360, 24564, 32607, 40960, 49140, 81559, 143771, 183359]


class Anything:
    """Has every attribute: False, None or itself, as it was told; so that a function that asks for more than is known fails loudly only when it matters."""

    def __init__(self, **values):
        self.__dict__.update(values)


def cut(source, names):
    """The functions of these names, as text, wherever they are defined."""
    out = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name in names and node.name not in out:
            out[node.name] = textwrap.dedent(ast.get_source_segment(source, node))
    return out


def source_of(folder, version, name):
    wheel = sorted(folder.glob(f"sglang-{version}-*.whl"))[0]
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name).decode()


def split_of(folder, version, case):
    """K, the bytes left for tokens, and the slots a request takes, as this version's code computes them."""
    file, name, ratio = SPLIT[version]
    source = source_of(folder, version, file)
    wanted = cut(source, [n for n in (name, ratio) if n])
    arguments = Anything(max_running_requests=case["requests"], speculative_num_draft_tokens=case["drafts"] or None, max_mamba_cache_size=case["slots"],
                         disable_radix_cache=not case["radix"], mamba_full_memory_ratio=case["ratio"], dp_size=1, enable_dp_attention=False,
                         disable_overlap_schedule=not case["overlap"], enable_mamba_extra_buffer=lambda: case["extra_buffer"], enable_mamba_extra_buffer_lazy=lambda: False)
    exec_ = Anything(mamba=Anything(enable_linear_replayssm_spec=False, linear_replayssm_cache_len=16, enable_mamba_extra_buffer=case["extra_buffer"],
                                    enable_mamba_extra_buffer_lazy=False))
    space = {"__builtins__": __builtins__, "MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO": 3, "MAMBA_CACHE_V2_ADDITIONAL_RATIO_OVERLAP": 2,
             "MAMBA_CACHE_V2_ADDITIONAL_RATIO_NO_OVERLAP": 1, "MAMBA_CACHE_V2_ADDITIONAL_RATIO_NO_BUFFER": 1, "MAMBA_CACHE_BASE_RATIO_DROP_ON_SKIP": 1,
             "get_schedule": lambda: arguments, "get_memory": lambda: arguments, "get_spec": lambda: arguments, "get_exec": lambda: exec_,
             "get_context": lambda: Anything(override=lambda _, **values: arguments.__dict__.update(values)),
             "envs": Anything(SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK=Anything(get=lambda: False)),
             "get_mamba_tracking_slots": lambda extra_buffer, overlap, lazy: 2 if overlap else 1, "_pd_prefill_skips_mamba_spec_state": lambda: False}
    for text in wanted.values():
        exec("from __future__ import annotations\n" + text, space)  # the wheel's own code, run on stand-ins
    params = Anything(mamba_cache_per_req=case["slot_bytes"], layers=list(range(48)))
    runner = Anything(mambaish_config=Anything(mamba2_cache_params=params), server_args=arguments, dp_size=1, attn_dp_size=1, pp_size=1,
                      spec_algorithm=Anything(is_none=lambda: case["drafts"] == 0), fused_entry_bytes=lambda _: None, hybrid_gdn_config=True, hybrid_kda_config=None,
                      extra_mamba_cache_bytes_per_req=0)
    if ratio:
        runner._calculate_mamba_ratio = types.MethodType(space[ratio], runner)
    try:
        left = space[name](runner, case["rest_gib"])
    except RuntimeError:
        return {"refused": True}
    return {"slots": arguments.max_mamba_cache_size, "left_gib": left}


def fraction_of(folder, version, case):
    source = source_of(folder, version, "sglang/srt/server_args.py")
    space = {"logger": Anything(warning=lambda *a: None, info=lambda *a: None), "envs": Anything()}
    vision = Anything(hidden_size=case["vision_hidden"]) if case["vision_depth"] is None else Anything(hidden_size=case["vision_hidden"], num_hidden_layers=case["vision_depth"])
    model = Anything(is_multimodal=case["vision_hidden"] > 0, hf_config=Anything(vision_config=vision))
    arguments = Anything(chunked_prefill_size=None, cuda_graph_max_bs=None, cuda_graph_bs=None, tp_size=case["tp"], pp_size=1, dp_size=1, enable_dp_attention=False,
                         piecewise_cuda_graph_max_tokens=None, piecewise_cuda_graph_tokens=None, enable_piecewise_cuda_graph=False, disable_piecewise_cuda_graph=False,
                         mem_fraction_static=None, max_prefill_tokens=16384, speculative_algorithm=case["algorithm"], language_only=False, enable_symm_mem=False,
                         disable_cuda_graph_padding=False, max_total_tokens=None, model_path="m", device="cuda", torch_compile_max_bs=None,
                         use_mla_backend=lambda: False, get_model_config=lambda: model)
    for name, text in cut(source, METHODS).items():
        exec("from __future__ import annotations\n" + text, space)
        setattr(arguments, name, types.MethodType(space[name], arguments))
    arguments._handle_gpu_memory_settings(case["gpu_mib"])
    return {"fraction": arguments.mem_fraction_static, "chunk": arguments.chunked_prefill_size, "graph_max_bs": arguments.cuda_graph_max_bs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=pathlib.Path)
    folder, rng = parser.parse_args().wheels, random.Random(5)
    splits, fractions = [], []
    for version in SPLIT:
        for _ in range(24):
            drafts = rng.choice([0, 0, 2, 4, 8])
            extra = rng.random() < 0.5
            case = {"version": version, "rest_gib": round(rng.uniform(2, 60), 3), "slot_bytes": 76972032, "requests": rng.choice([1, 8, 16, 48]), "drafts": drafts,
                    "slots": rng.choice([None, None, None, 16, 100]), "ratio": rng.choice([0.5, 0.9, 1.5]), "extra_buffer": extra, "overlap": extra,
                    "radix": not (drafts and not extra) and (extra or rng.random() < 0.7)}
            splits.append({**case, "asked_slots": case["slots"], **split_of(folder, version, case)})
    for version in FRACTION:
        for gpu in GPUS_MIB:
            case = {"version": version, "gpu_mib": gpu, "tp": rng.choice([1, 2, 4, 8]), "algorithm": rng.choice([None, None, "EAGLE", "NGRAM", "STANDALONE"]),
                    "vision_hidden": rng.choice([0, 0, 1152]), "vision_depth": rng.choice([None, 24, 27])}
            fractions.append({**case, **fraction_of(folder, version, case)})
    target = ROOT / "tests/data/planner/sglang.json"
    rows = [("splits", splits), ("fractions", fractions)]
    body = ",\n".join(f'"{name}": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]" for name, cases in rows)
    target.write_text('{"engine": "sglang", "made_by": "tests/differential/planner_sglang_record.py",\n' + body + "}\n")
    print(f"{len(splits)} splits and {len(fractions)} fractions in {target.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

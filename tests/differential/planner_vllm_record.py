#!/usr/bin/env python3
"""Asks vLLM's own code for its KV cache blocks, over generated models of every family of layers, and writes them down.

Called are get_kv_cache_configs and get_kv_cache_capacity of v1/core/kv_cache_utils.py, the shapes of states of
mamba_utils.py and, for hybrids, Platform._align_hybrid_block_size; nothing of them is repeated here. The models are
config.json files that `millwright fit` reads too. unit_planner holds the planner against the answers in
tests/data/planner/vllm-VERSION.json, without vLLM.

usage: PYTHON_OF_VLLM planner_vllm_record.py [--cases N]     (vLLM on a CPU will do)
"""
import argparse
import dataclasses
import json
import pathlib
import random
import sys
from types import SimpleNamespace
from unittest import mock

import torch
import vllm
from vllm.config.cache import CacheConfig, _layout_from_name
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator as Shapes
from vllm.platforms.interface import Platform
from vllm.v1.attention.backend import MultipleOf
from vllm.v1.core import kv_cache_utils as utils
from vllm.v1.kv_cache_interface import FullAttentionSpec, MambaSpec, MLAAttentionSpec, SlidingWindowSpec

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Backend:
    """FlashAttention's sizes: any multiple of 16."""

    @staticmethod
    def get_supported_kernel_block_sizes():
        return [MultipleOf(16)]

    @staticmethod
    def customize_spec(spec):
        return spec

    @staticmethod
    def supports_block_size(size):
        return size % 16 == 0

    @staticmethod
    def get_name():
        return "FLASH_ATTN"


def settings(case, config):
    cache = SimpleNamespace(block_size=case["block"], num_gpu_blocks_override=None, mamba_cache_mode=case["mode"], mamba_block_size=None,
                            mamba_page_size_padded=None, enable_prefix_caching=True, cache_dtype=case["kv"], kv_cache_dtype_skip_layers=[],
                            kv_cache_size_tokens=None, kv_cache_max_concurrency=None, prefix_cache_retention_interval=0, get_resolved_kv_cache_layout=lambda: _layout_from_name("LBHNC"))
    for field in dataclasses.fields(CacheConfig):  # everything else as vLLM has it by default
        if not hasattr(cache, field.name) and isinstance(field.default, (int, float, str, bool, type(None))):
            setattr(cache, field.name, field.default)
    parallel = SimpleNamespace(decode_context_parallel_size=1, prefill_context_parallel_size=1, pipeline_parallel_size=1, tensor_parallel_size=case["tp"])
    heads = max(1, config["num_key_value_heads"] // case["tp"])
    model = SimpleNamespace(max_model_len=case["length"], original_max_model_len=case["length"], dtype=torch.bfloat16, use_mla=bool(config.get("kv_lora_rank")),
                            architecture="Any", get_num_kv_heads=lambda _: heads, is_hybrid=True, hf_config=SimpleNamespace(), hf_text_config=SimpleNamespace(),
                            get_head_size=lambda: config["kv_lora_rank"] + config["qk_rope_head_dim"] if config.get("kv_lora_rank") else config["head_dim"])
    return SimpleNamespace(cache_config=cache, parallel_config=parallel, model_config=model, speculative_config=None, diffusion_config=None,
                           scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False, max_num_batched_tokens=case["batched"], async_scheduling=True),
                           attention_config=SimpleNamespace(hisparse_config=None), device_config=SimpleNamespace(device_type="cuda"),
                           max_in_flight_tokens=2 * case["batched"], num_prefill_lookahead_tokens=0, num_speculative_tokens=case["drafts"],
                           kv_transfer_config=None, kv_events_config=None, compilation_config=SimpleNamespace(static_forward_context={}))


def state_of(family, config, tp, drafts):
    """Shapes and dtypes as the models' own classes take them."""
    if family.startswith("gdn"):
        shapes = Shapes.gated_delta_net_state_shape(tp, config["linear_num_key_heads"], config["linear_num_value_heads"], config["linear_key_head_dim"],
                                                    config["linear_value_head_dim"], config["linear_conv_kernel_dim"], drafts)
        return shapes, (torch.bfloat16, torch.float32)
    shapes = Shapes.mamba2_state_shape(tp_world_size=tp, intermediate_size=config["mamba_d_ssm"], n_groups=config["mamba_n_groups"], num_heads=config["mamba_n_heads"],
                                       head_dim=config["mamba_d_head"], state_size=config["mamba_d_state"], conv_kernel=config["mamba_d_conv"])
    return shapes, (torch.bfloat16, torch.bfloat16)


def align(configuration, shapes, dtypes):
    cls = SimpleNamespace(get_mamba_state_shape_from_config=lambda _: shapes, get_mamba_state_dtype_from_config=lambda _: dtypes)
    with mock.patch("vllm.model_executor.models.ModelRegistry.resolve_model_cls", lambda *a, **k: (cls, "Any")), \
            mock.patch.object(Platform, "_find_non_ssm_backends", classmethod(lambda *a: [Backend])), \
            mock.patch("vllm.config.vllm.set_current_vllm_config", lambda *a, **k: mock.MagicMock()):
        Platform._align_hybrid_block_size(configuration, Backend)


def generate(number, rng):
    """A config of one family, and how it is served."""
    family = ["gqa", "mqa", "mla", "windows", "all_windows", "gdn", "gdn_drafts", "mamba2", "both"][number % 9]
    layers = rng.choice([24, 28, 32, 34, 36, 40, 46, 48, 60, 62])
    heads = rng.choice([16, 32])
    config = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": layers, "num_attention_heads": heads, "head_dim": rng.choice([64, 128, 256]),
              "num_key_value_heads": 1 if family == "mqa" else rng.choice([2, 4, 8, 16]), "intermediate_size": 8192, "vocab_size": 128256,
              "max_position_embeddings": 262144}
    case = {"tp": rng.choice([1, 1, 2, 4]), "block": 16, "kv": rng.choice(["auto", "auto", "fp8"]), "length": rng.choice([2048, 8192, 16384, 32768, 100000, 262144]),
            "batched": rng.choice([2048, 8192]), "drafts": 0, "mode": "align"}
    if family == "mla":
        config |= {"model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
        case["block"] = 64
    if family == "windows":
        period = rng.choice([2, 4, 6])
        config |= {"model_type": "gemma3_text", "sliding_window": rng.choice([512, 1024, 4096]), "sliding_window_pattern": period}
    if family == "all_windows":
        config |= {"model_type": "mistral", "sliding_window": 4096}
    if family.startswith("gdn"):
        config |= {"model_type": "qwen3_5_text", "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": rng.choice([16, 32, 48]),
                   "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "mamba_ssm_dtype": "float32"}
        config["num_hidden_layers"] = layers // 4 * 4
    if family == "gdn_drafts":
        case["drafts"] = rng.choice([1, 2, 3])
    if family in ("mamba2", "both"):
        config |= {"model_type": "falcon_h1" if family == "both" else "bamba", "mamba_d_ssm": 4096, "mamba_n_heads": 64, "mamba_d_head": 64,
                   "mamba_n_groups": rng.choice([1, 8]), "mamba_d_state": rng.choice([128, 256]), "mamba_d_conv": 4}
        if family == "mamba2":
            every = rng.choice([5, 10])
            config["layers_block_type"] = ["attention" if layer % every == every - 1 else "mamba" for layer in range(layers)]
    return family, config, case


def kinds_of(family, config):
    layers = config["num_hidden_layers"]
    if family == "windows":
        return ["full" if (layer + 1) % config["sliding_window_pattern"] == 0 else "window" for layer in range(layers)]
    if family == "all_windows":
        return ["window"] * layers
    if family.startswith("gdn"):
        return ["full" if (layer + 1) % 4 == 0 else "state" for layer in range(layers)]
    if family == "mamba2":
        return ["full" if kind == "attention" else "state" for kind in config["layers_block_type"]]
    return ["both" if family == "both" else "full"] * layers


def specs_of(family, config, case, configuration):
    dtype = torch.float8_e4m3fn if case["kv"] == "fp8" else torch.bfloat16
    heads = max(1, config["num_key_value_heads"] // case["tp"])
    kinds, state = kinds_of(family, config), None
    if any(kind in ("state", "both") for kind in kinds):
        shapes, dtypes = state_of(family, config, case["tp"], case["drafts"])
        align(configuration, shapes, dtypes)
        checkpoints = 1 if family in ("mamba2", "both") else 0  # MambaMixer2.get_kv_cache_spec
        state = MambaSpec(block_size=configuration.cache_config.block_size, shapes=shapes, dtypes=dtypes, page_size_padded=configuration.cache_config.mamba_page_size_padded,
                          mamba_cache_mode=case["mode"], num_speculative_blocks=case["drafts"], num_prefill_checkpoint_blocks=checkpoints)
    block, out = configuration.cache_config.block_size, {}
    for layer, kind in enumerate(kinds + ["full"] * (1 if case["drafts"] else 0)):
        if kind in ("full", "both") and config.get("kv_lora_rank"):
            out[f"{layer}.attn"] = MLAAttentionSpec(block_size=block, num_kv_heads=1, head_size=config["kv_lora_rank"] + config["qk_rope_head_dim"], dtype=dtype)
        elif kind in ("full", "both"):
            out[f"{layer}.attn"] = FullAttentionSpec(block_size=block, num_kv_heads=heads, head_size=config["head_dim"], dtype=dtype)
        elif kind == "window":
            out[f"{layer}.attn"] = SlidingWindowSpec(block_size=block, num_kv_heads=heads, head_size=config["head_dim"], dtype=dtype, sliding_window=config["sliding_window"],
                                                     dcp_sharded=False)
        if kind in ("state", "both"):
            out[f"{layer}.mixer"] = state
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=162)
    parser.add_argument("--seed", type=int, default=11)
    wanted = parser.parse_args()
    rng, out, refused = random.Random(wanted.seed), [], 0
    for number in range(wanted.cases):
        family, config, case = generate(number, rng)
        configuration = settings(case, config)
        specs = specs_of(family, config, case, configuration)
        pool = rng.randrange(4 << 30, 60 << 30)
        try:
            answer = utils.get_kv_cache_configs(configuration, [specs], [pool])[0]
        except ValueError:
            refused += 1  # one request does not fit
            continue
        tokens, concurrency = utils.get_kv_cache_capacity(configuration, answer)
        flags = {"max-model-len": case["length"], "max-num-batched-tokens": case["batched"], "kv-cache-dtype": case["kv"], "tensor-parallel-size": case["tp"]}
        if case["drafts"]:
            config["mtp_num_hidden_layers"] = 1
            flags["speculative-config"] = json.dumps({"method": "mtp", "num_speculative_tokens": case["drafts"]})
        out.append({"family": family, "config": config, "tp": case["tp"], "flags": flags, "pool_bytes": pool, "num_blocks": answer.num_blocks, "tokens": tokens,
                    "groups": len(answer.kv_cache_groups), "blocks_per_request": round(answer.num_blocks / concurrency)})
    version = vllm.__version__.split("+")[0]
    target = ROOT / f"tests/data/planner/vllm-{version}.json"
    head = {"engine": "vllm", "version": version, "made_by": "tests/differential/planner_vllm_record.py", "seed": wanted.seed}
    target.write_text(json.dumps(head)[:-1] + ',\n"cases": [\n' + ",\n".join(json.dumps(case) for case in out) + "\n]}\n")
    print(f"{len(out)} cases in {target.relative_to(ROOT)}; {refused} too small for one request")
    return 0


if __name__ == "__main__":
    sys.exit(main())

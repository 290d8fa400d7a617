"""Starts SGLang's server as `python -m sglang.launch_server` does, with an API key that is in no argument of the process
and in no line of its log: every version up to 0.5.23 prints all of its arguments when it starts."""
import logging
import os
import runpy
import sys

KEY = "MILLWRIGHT_API_KEY"


def hide(key):
    make = logging.getLogRecordFactory()

    def record(*given, **named):
        out = make(*given, **named)
        if isinstance(out.msg, str) and key in out.msg:
            out.msg = out.msg.replace(key, "***")
        return out

    logging.setLogRecordFactory(record)


def main():
    key = os.environ.pop(KEY, "")  # so that no process that it starts has it either
    if key:
        hide(key)
        sys.argv += ["--api-key", key]  # seen by Python only, not by the kernel
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

"""Run the job and send it a signal at a chosen call: `dying.py MODULE:NAME:COUNT SIGNAL train.py --...`.

The process gets the signal immediately before call number COUNT of the named function, during a real training.
"""

from __future__ import annotations

import importlib
import itertools
import os
import runpy
import signal
import sys
import time
from pathlib import Path
from typing import Any


def main(call: str, signal_name: str, script: str) -> None:
    sys.path.insert(0, str(Path(script).parent))
    importlib.import_module("train")
    module, name, count = call.split(":")
    send_at_call(importlib.import_module(module), name, int(count), signal.Signals[signal_name])
    sys.argv = sys.argv[3:]
    runpy.run_path(script, run_name="__main__")


def send_at_call(owner: Any, name: str, count: int, number: signal.Signals) -> None:
    *classes, last = name.split(".")
    for each in classes:
        owner = getattr(owner, each)
    original, calls = getattr(owner, last), itertools.count(1)

    def signalling(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == count:
            os.kill(os.getpid(), number)
            time.sleep(1)  # Another thread may handle the signal. Give it time to run.
        return original(*args, **kwargs)

    setattr(owner, last, signalling)


if __name__ == "__main__":
    main(*sys.argv[1:4])

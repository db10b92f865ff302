"""Run the job and send it a signal at a chosen call: `dying.py MODULE:NAME:COUNT SIGNAL train.py --...`.

The process gets the signal just before call number COUNT, in the middle of the real training.
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


def main(spot: str, name_of_signal: str, script: str) -> None:
    sys.path.insert(0, str(Path(script).parent))
    importlib.import_module("compilation.lean_imports")
    module, name, count = spot.split(":")
    die_at(importlib.import_module(module), name, int(count), signal.Signals[name_of_signal])
    sys.argv = sys.argv[3:]
    runpy.run_path(script, run_name="__main__")


def die_at(owner: Any, name: str, count: int, number: signal.Signals) -> None:
    *classes, last = name.split(".")
    for each in classes:
        owner = getattr(owner, each)
    original, calls = getattr(owner, last), itertools.count(1)

    def dying(*arguments: Any, **named: Any) -> Any:
        if next(calls) == count:
            os.kill(os.getpid(), number)
            time.sleep(1)  # A signal that another thread handles takes effect when that thread runs next.
        return original(*arguments, **named)

    setattr(owner, last, dying)


if __name__ == "__main__":
    main(*sys.argv[1:4])

"""Print the process's environment, then end in a chosen way: `python -m tests.support.fork_server.sample ENDING`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    started = {
        "pid": os.getpid(),
        "folder": str(Path.cwd()),
        "variable": os.environ.get("SAMPLE"),
        "cores": sorted(os.sched_getaffinity(0)),
        "mlflow": "mlflow" in sys.modules,
    }
    print(json.dumps(started), flush=True)
    if sys.argv[1] == "exit":
        sys.exit(7)
    if sys.argv[1] == "signal":
        os.kill(os.getpid(), signal.SIGUSR1)
    if sys.argv[1] == "echo":
        print(sys.stdin.read(), file=sys.stderr)
    if sys.argv[1] == "wait":
        time.sleep(300)

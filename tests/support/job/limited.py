"""Run the job with limited memory in one of its processes: `limited.py RANK train.py --...`."""

from __future__ import annotations

import os
import resource
import runpy
import sys
from pathlib import Path

BYTES = 1_800_000_000

if os.environ.get("RANK", "0") == sys.argv[1]:
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
sys.path.insert(0, str(Path(sys.argv[2]).parent))
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")

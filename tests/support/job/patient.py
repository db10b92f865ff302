"""Run the job with two minutes for the trial of `auto`, and no format left out as slow: `patient.py train.py --...`.

A busy machine may need the time, and may make any format look slow.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    importlib.import_module("compilation.lean_imports")
    candidates = importlib.import_module("tuning.candidates")
    candidates.BUDGET_SECONDS, candidates.EMULATED = 120.0, float("inf")
    runpy.run_path(sys.argv[0], run_name="__main__")

"""Run the job with two minutes for the trial of `auto`, which a busy machine may need: `patient.py train.py --...`."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    importlib.import_module("compilation.lean_imports")
    importlib.import_module("tuning.candidates").BUDGET_SECONDS = 120.0
    runpy.run_path(sys.argv[0], run_name="__main__")

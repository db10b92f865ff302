"""The command line answers `--help` without importing a heavy library."""

from __future__ import annotations

import subprocess
import sys

from tests.layout.imports import ROOT

HEAVY = ("torch", "transformers", "mlflow", "boto3", "datasets", "pandas", "matplotlib", "sagemaker", "optuna", "scipy")


def test_help_imports_nothing_heavy() -> None:
    code = f"""
import runpy, sys
sys.argv = ["experiments", "--help"]
try:
    runpy.run_module("experiments", run_name="__main__", alter_sys=True)
except SystemExit as end:
    assert not end.code, end.code
print("loaded:", *sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"

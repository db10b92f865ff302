"""The command line answers `--help` without importing a heavy library."""

from __future__ import annotations

import subprocess
import sys

from tests.layout.imports import ROOT

HEAVY = (
    *("torch", "transformers", "mlflow", "boto3", "datasets", "pandas", "matplotlib", "sagemaker", "optuna", "scipy"),
    *("pydantic", "rich", "yaml"),
)


def test_help_of_every_verb_imports_no_heavy_library() -> None:
    code = f"""
import sys
from experiments.__main__ import VERBS, main
for words in [[], *([verb] for verb in VERBS), ["jobs", "list"], ["jobs", "prune"]]:
    assert main([*words, "--help"]) == 0
assert main(["--version"]) == 0
print("loaded:", *sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_the_help_of_one_verb_does_not_import_the_others() -> None:
    code = """
import sys
from experiments.__main__ import main
main(["train", "--help"])
print("loaded:", *({"experiments.commands.jobs", "experiments.commands.deploy"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"

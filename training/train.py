"""Entry point of a training job in script mode: `python train.py`, with the arguments and `SM_*` variables of a plan.

The container has the files of this folder without their packages. They import each other by the names that they have
in the repository, so this file gives their folder those names. `main.py` describes the job.
"""

import sys
from pathlib import Path
from types import ModuleType

FOLDER = str(Path(__file__).resolve().parent)

for name in ("training", "training.job"):
    package = ModuleType(name)
    package.__path__ = [FOLDER]
    sys.modules[name] = package

from training.job.main import _mp_fn, exit_with_code  # noqa: E402, F401 - torch_xla's launcher looks up `_mp_fn`

if __name__ == "__main__":
    exit_with_code()

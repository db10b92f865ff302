"""The entry point blocks packages that would only slow the start down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from compilation import compilers

CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import train
from compilation.lean_imports import UNUSED
print([name for name in UNUSED if sys.modules.get(name, "not blocked") is not None])
"""


def test_the_entry_point_blocks_unused_packages() -> None:
    job = str(Path(compilers.__file__).parents[1])
    assert subprocess.check_output([sys.executable, "-c", CODE, job], text=True).strip() == "[]"

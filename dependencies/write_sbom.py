"""`python -m dependencies.write_sbom FILE`: list what `make setup` can install, with hashes, in the format CycloneDX.

The list has PyTorch's builds for CPUs and for GPUs, and what the latter needs on Linux: machines install one of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dependencies.write_locks import CPU, GPU, ROOT, RUNTIME

LOCKS = (RUNTIME, CPU, GPU)


def write(output: Path) -> None:
    """Write the list."""
    pins = "".join(path.read_text("utf-8") for path in LOCKS)
    options = ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--validate"]
    command = [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements", *options]
    subprocess.run([*command, "--output-file", str(output), "-"], input=pins, text=True, check=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]))

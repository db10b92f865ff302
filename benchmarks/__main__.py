"""`python -m benchmarks [NAME ...]`: run all `bench_*.py`, or the named ones, one after the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def main(names: list[str]) -> int:
    """Run each benchmark in its own process. Return 0, 1 if any failed, or 2 for an unknown name."""
    files = {path.stem.removeprefix("bench_"): path.relative_to(FOLDER.parent) for path in FOLDER.rglob("bench_*.py")}
    modules = {name: ".".join(path.with_suffix("").parts) for name, path in files.items()}
    known = sorted(modules)
    if unknown := [name for name in names if name not in known]:
        print(f"error: unknown benchmark '{unknown[0]}': it must be one of {', '.join(known)}.", file=sys.stderr)
        return 2
    failed = []
    for name in names or known:
        print(f"{name}", flush=True)
        if subprocess.run([sys.executable, "-m", modules[name]], cwd=FOLDER.parent).returncode:
            failed.append(name)
    if failed:
        print(f"error: these benchmarks failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

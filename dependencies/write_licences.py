"""`python -m dependencies.write_licences`: write docs/licences.md, the licence of every package of the runtime lock.

`make licences` runs this in the environment of `make setup`, where pip-licenses reads the metadata of each package.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from dependencies.write_locks import normalised, parse

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"
READ_BY_PEOPLE = {
    "huey": "MIT License",
    "sagemaker-train": "Apache Software License",
    "skops": "MIT License",
}
"""Licences of packages whose metadata names none. A person has read their licence files."""
UNKNOWN = "UNKNOWN"
INTRODUCTION = """\
# Licences

trainfare itself is licensed under Apache-2.0 (`LICENSE`). This page lists the packages that `make setup` installs, by
the licence that their metadata states. On Linux, PyTorch's build for GPUs also needs the packages of
`requirements-gpu.lock`, most of them under NVIDIA's own licence terms. `make licences` generates this page.

"""


def main() -> None:
    """Write the page. Exits with a sentence if the licence of a package is not known."""
    lock = parse((ROOT / "requirements.lock").read_text("utf-8"))
    licences = installed_licences(sorted(lock))
    if unknown := [name for name in lock if licences.get(name, UNKNOWN) == UNKNOWN]:
        sys.exit(
            f"error: the metadata of {', '.join(unknown)} names no licence: read it, and add it to READ_BY_PEOPLE."
        )
    packages: dict[str, list[str]] = {}
    for name in sorted(lock):
        packages.setdefault(licences[name], []).append(f"{name} {lock[name].version}")
    items = [f"- **{licence}**: {', '.join(packages[licence])}\n" for licence in sorted(packages)]
    PAGE.write_text(INTRODUCTION + "".join(items), "utf-8")


def installed_licences(names: list[str]) -> dict[str, str]:
    """Return the licence of each of these packages that is installed, by normalised name."""
    options = ["--with-system", "--from=mixed", "--format=json", "--packages", *names]
    done = subprocess.run([sys.executable, "-m", "piplicenses", *options], capture_output=True, text=True, check=True)
    stated = {normalised(entry["Name"]): " ".join(entry["License"].split()) for entry in json.loads(done.stdout)}
    return stated | {name: licence for name, licence in READ_BY_PEOPLE.items() if stated.get(name) == UNKNOWN}


if __name__ == "__main__":
    main()

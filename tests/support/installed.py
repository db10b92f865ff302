"""Environment of commands in which the entry points of this repository are installed, whatever `.venv` contains."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def installed_environment(folder: Path) -> dict[str, str]:
    """Return the environment variables, after writing to `folder` the metadata that `make setup` installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    metadata = folder / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    lines = [line for name, each in groups.items() for line in (f"[{name}]", *(f"{k} = {v}" for k, v in each.items()))]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    return {**kept, "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'src'}"}

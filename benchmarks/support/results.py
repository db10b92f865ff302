"""One result file per benchmark: the machine, the commit, the date and the rows; and the page made of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracking.recording.run_description import ROOT, environment

FOLDER = Path(__file__).resolve().parents[1] / "results"
PAGE = ROOT / "docs" / "benchmarks.md"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure."""

    name: str
    value: float
    unit: str
    spread: float | None = None
    """Half of the interquartile range, in `unit`; None for a count."""
    n: int = 1
    """Measurements behind the value."""
    target: str | None = None
    """What it had to reach, in words; always against something measured in the same run."""
    met: bool | None = None


def measured(name: str, values: Sequence[float], unit: str, target: str | None = None, met: bool | None = None) -> Row:
    """Return the row of the median of `values` with its spread."""
    return Row(
        name=name,
        value=statistics.median(values),
        unit=unit,
        spread=spread(values),
        n=len(values),
        target=target,
        met=met,
    )


def spread(values: Sequence[float]) -> float | None:
    """Return half of the interquartile range, or None of fewer than two values."""
    if len(values) < 2:
        return None
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2


def write(name: str, rows: Sequence[Row], notes: Sequence[str] = (), *, is_part: bool = False) -> None:
    """Write `benchmarks/results/<name>.json`, print the rows, and make the page anew.

    Where only a part was measured, other rows of the same machine and commit stay.
    """
    found = environment()
    machine = {**found["machine"], "python": found["python"], "packages": found["packages"], "gpu": _gpu()}
    result = {
        "machine": machine,
        "commit": found["git"]["commit"],
        "dirty": found["git"]["dirty"],
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "notes": list(notes),
        "rows": [asdict(row) for row in rows],
    }
    file = FOLDER / f"{name}.json"
    if is_part and file.exists():
        result["rows"] = [*_others(json.loads(file.read_text()), result), *result["rows"]]
    FOLDER.mkdir(exist_ok=True)
    file.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    for row in rows:
        print("  " + _sentence(asdict(row)))
    PAGE.write_text(page())


def _others(before: dict[str, Any], now: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of an earlier measurement that stand beside those of now."""
    if any(before[key] != now[key] for key in ("machine", "commit")):
        return []
    measured_now = {row["name"] for row in now["rows"]}
    return [row for row in before["rows"] if row["name"] not in measured_now]


def page() -> str:
    """Return docs/benchmarks.md, made of the result files."""
    parts = ["# Benchmarks\n\nMade by `make bench` from `benchmarks/results/*.json`; do not edit.\n"]
    for path in sorted(FOLDER.glob("*.json")):
        parts.append(_section(path.stem, json.loads(path.read_text())))
    return "\n".join(parts)


def _section(name: str, result: dict[str, Any]) -> str:
    machine, packages = result["machine"], result["machine"]["packages"]
    commit = (result["commit"] or "none")[:10] + (" (dirty)" if result["dirty"] else "")
    lines = [f"## {name}", ""]
    lines.append(
        f"{result['date']}, commit {commit}, {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, GPU {machine['gpu'] or 'none'}, torch {packages.get('torch')}, "
        f"transformers {packages.get('transformers')}."
    )
    lines += ["", "| figure | value | spread | n | target | met |", "| --- | ---: | ---: | ---: | --- | --- |"]
    for row in result["rows"]:
        met = {True: "yes", False: "**no**", None: ""}[row["met"]]
        spread_text = "" if row["spread"] is None else f"±{row['spread']:.3g}"
        value, target = f"{row['value']:.4g} {row['unit']}", row["target"] or ""
        lines.append(f"| {row['name']} | {value} | {spread_text} | {row['n']} | {target} | {met} |")
    lines += ["", *[f"- {note}" for note in result["notes"]], ""]
    return "\n".join(lines)


def _sentence(row: dict[str, Any]) -> str:
    text = f"{row['name']}: {row['value']:.4g} {row['unit']}"
    if row["spread"] is not None:
        text += f" ± {row['spread']:.3g}"
    if row["target"]:
        text += f"  (target {row['target']}: {'met' if row['met'] else 'MISSED'})"
    return text


def _gpu() -> str | None:
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None

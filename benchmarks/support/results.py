"""Result files, one for each benchmark: a list of results, newest first, one for each kind of machine."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.support.page import FOLDER, PAGE, page
from judging.intervals import paired_interval
from tracking.recording.run_artifacts import ROOT, environment


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured figure."""

    name: str
    value: float
    unit: str
    spread: float | None = None
    """In `unit`: half of the interquartile range of a median, or half of the 95 % interval of a mean; else None."""
    n: int = 1
    """Number of measurements behind the value."""
    target: str | None = None
    """Description of the target. It always refers to something measured in the same run."""
    met: bool | None = None
    """True if the target is met; None without a target."""


def figure(
    name: str,
    values: float | Sequence[float],
    unit: str,
    *,
    least: float | None = None,
    most: float | None = None,
    n: int | None = None,
) -> Row:
    """Return a row with a value, or the median and the spread of several. The target is `least`, `most` or both.

    `n` is the number of measurements behind a single value.
    """
    numbers = list(values) if isinstance(values, Sequence) else [values]
    value = statistics.median(numbers)
    quartiles = statistics.quantiles(numbers, n=4, method="inclusive") if len(numbers) > 1 else None
    bounds = [f"at {word} {limit:.4g}" for word, limit in (("least", least), ("most", most)) if limit is not None]
    is_met = (least is None or value >= least) and (most is None or value <= most)
    return Row(
        name=name,
        value=value,
        unit=unit,
        spread=(quartiles[2] - quartiles[0]) / 2 if quartiles else None,
        n=n or len(numbers),
        target=f"{' and '.join(bounds)} {unit}".strip() if bounds else None,
        met=is_met if bounds else None,
    )


def loss_row(name: str, ours: Sequence[float], theirs: Sequence[float], *, has_target: bool = True) -> Row | None:
    """Return the mean difference of the losses, in nats, of pairs with the same seed; None with fewer than two pairs.

    Its spread is half of the 95 % interval of the mean.
    """
    interval = paired_interval(ours, theirs)
    if interval is None:
        return None
    return Row(
        name=name,
        value=interval.estimate,
        unit="nats",
        spread=(interval.high - interval.low) / 2,
        n=len(ours),
        target="not shown to be higher: the 95 % interval starts at or below 0" if has_target else None,
        met=interval.low <= 0 if has_target else None,
    )


def write(name: str, rows: Sequence[Row], notes: Sequence[str] = ()) -> None:
    """Write `benchmarks/results/<name>.json`, print the rows, and regenerate docs/benchmarks.md.

    The result replaces an earlier one of the same kind of machine. Earlier rows and notes from the same machine and
    commit are kept unless `rows` replaces them.
    """
    import torch  # takes seconds

    here = environment()
    machine = {
        **here["machine"],
        "instructions": _instructions(),
        "python": here["python"],
        "packages": here["packages"],
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
    }
    result: dict[str, Any] = {
        "machine": machine,
        "commit": here["git"]["commit"],
        "dirty": _is_dirty(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "notes": list(notes),
        "rows": [asdict(row) for row in rows],
    }
    file = FOLDER / f"{name}.json"
    earlier = json.loads(file.read_text()) if file.exists() else []
    for before in earlier:
        if all(before[key] == result[key] for key in ("machine", "commit")):
            measured_now = {row.name for row in rows}
            result["rows"] = [each for each in before["rows"] if each["name"] not in measured_now] + result["rows"]
            result["notes"] = [*dict.fromkeys([*before["notes"], *notes])]
    others = [each for each in earlier if not is_same_kind(each["machine"], machine)]
    file.write_text(json.dumps([result, *others], indent=1, ensure_ascii=False) + "\n")
    for row in rows:
        target = f"  (target {row.target}: {'met' if row.met else 'MISSED'})" if row.target else ""
        error = "" if row.spread is None else f" ± {row.spread:.3g}"
        print(f"  {row.name}: {row.value:.4g} {row.unit}{error}{target}")
    PAGE.write_text(page())


def _is_dirty() -> bool:
    """Return whether files differ from the commit, apart from results of benchmarks, which do not change what runs."""
    others = (f":!{path.relative_to(ROOT)}" for path in (FOLDER, PAGE))
    command = ["git", "status", "--porcelain", "--", ".", *others]
    return bool(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def is_same_kind(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether two machines are of one kind. Older results do not record the CPU's
    instructions: a missing value equals any."""
    instructions = {first.get("instructions"), second.get("instructions")} - {None}
    return (first["processor"], first["gpu"]) == (second["processor"], second["gpu"]) and len(instructions) <= 1


_INSTRUCTIONS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 and bf16", "avx512f": "AVX-512", "avx2": "AVX2"}
"""CPU flags and their names on the page, fastest first. Processors with the same name can have different flags."""


def _instructions() -> str:
    """Return the fastest instructions for matrix products that this CPU has."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return ""
    return next((name for flag, name in _INSTRUCTIONS.items() if flag in flags), "")

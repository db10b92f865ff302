"""Result files, one for each benchmark, and the page generated from them.

A file is a list of results, newest first: one for each kind of machine, with machine, commit, date and rows.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

from tracking.recording.run_description import ROOT, environment

FOLDER = Path(__file__).resolve().parents[1] / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
INTRODUCTION = """\
# Benchmarks

The benchmarks generate this page from `benchmarks/results/*.json`. Do not edit it.

{summary}

Each section is one benchmark (`bench_<name>.py` in `benchmarks/`), or a part of `make accept-gpu` (`gpu-<part>`), with
a table of the figures that have a target for each kind of machine that it was run on. All figures are in the JSON file.
Unless its name says otherwise, a value is the median of n measurements, and its spread is half of their interquartile
range (of a mean: half of its 95 % interval). Speeds are compared only within one run, on one machine. Targets that were
missed are listed too.
"""

SUMMARY = (
    (
        "How many times as fast as the published recipe are our defaults, at equal loss (emotion, no compiler)?",
        "workloads",
        "emotion (MiniLM), ours uncompiled: speed-up over the recipe",
    ),
    (
        "How many times as fast as a well-tuned Trainer are our defaults, on the workload with the smallest gain?",
        "tuned_trainer",
        ": speed-up over the tuned Trainer",
    ),
    (
        "In the worst case, how fast are the settings that `auto` chooses, relative to the best fixed ones?",
        "auto",
        ": auto / best",
    ),
    (
        "How fast is a job beside a busy process, relative to alone (two CPUs)?",
        "neighbours",
        "our defaults: speed beside 1 busy process ÷ alone",
    ),
    ("How often is one of two equally expensive settings called cheaper?", "waves", "false verdicts: recorded noise"),
    ("How often is a gain of 10 % detected?", "waves", "a gain of 10 % found: recorded noise"),
    ("How many values of metrics were lost while 200 jobs ran at once?", "following", "points lost"),
)
"""Question, benchmark, and end of a row's name, for each line of the table at the top of the page. The smallest value
answers the question if several rows' names end so."""


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


def median_row(
    name: str, values: Sequence[float], unit: str, target: str | None = None, met: bool | None = None
) -> Row:
    """Return a row with the median and the spread of `values`."""
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
    """Return half of the interquartile range, or None for fewer than two values."""
    if len(values) < 2:
        return None
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2


def write(name: str, rows: Sequence[Row], notes: Sequence[str] = (), *, is_part: bool = False) -> None:
    """Write `benchmarks/results/<name>.json`, print the rows, and regenerate docs/benchmarks.md.

    The result replaces an earlier one of the same kind of machine. With `is_part`, earlier rows and notes from the same
    machine and commit are kept unless `rows` replaces them.
    """
    here = environment()
    machine = {
        **here["machine"],
        "instructions": _instructions(),
        "python": here["python"],
        "packages": here["packages"],
        "gpu": _gpu(),
    }
    result = {
        "machine": machine,
        "commit": here["git"]["commit"],
        "dirty": _is_dirty(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "notes": list(notes),
        "rows": [asdict(row) for row in rows],
    }
    file = FOLDER / f"{name}.json"
    earlier = json.loads(file.read_text()) if file.exists() else []
    if is_part:
        for before in earlier:
            _keep_rows(before, result)
    others = [each for each in earlier if not is_same_kind(each["machine"], machine)]
    FOLDER.mkdir(exist_ok=True)
    file.write_text(json.dumps([result, *others], indent=1, ensure_ascii=False) + "\n")
    for row in rows:
        print("  " + _sentence(asdict(row)))
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


def _keep_rows(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Add the rows and notes of an earlier measurement that the new one does not replace."""
    if any(before[key] != now[key] for key in ("machine", "commit")):
        return
    measured_now = {row["name"] for row in now["rows"]}
    now["rows"] = [row for row in before["rows"] if row["name"] not in measured_now] + now["rows"]
    now["notes"] = [note for note in before["notes"] if note not in now["notes"]] + now["notes"]


def page() -> str:
    """Return the content of docs/benchmarks.md, generated from the result files."""
    results = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
    parts = [INTRODUCTION.replace("{summary}", _summary(results))]
    return "\n".join([*parts, *(_section(name, measured) for name, measured in results.items())])


def _summary(results: Mapping[str, Sequence[Any]]) -> str:
    """Return the table of the most important figures, on each kind of machine that they were measured on."""
    lines = ["| question | answer | target | met | machine | section |", "| --- | ---: | --- | --- | --- | --- |"]
    for question, name, ending in SUMMARY:
        measured = [(_smallest(result["rows"], ending), result["machine"]) for result in results[name]]
        cells = [
            (_value(row), row["target"] or "", _MET[row["met"]], _machine(where)) for row, where in measured if row
        ] or [("to be measured", "", "", "")]
        answers, targets, met, machines = ("<br>".join(column) for column in zip(*cells, strict=True))
        lines.append(f"| {question} | {answers} | {targets} | {met} | {machines} | [{name}](#{name}) |")
    return "\n".join(lines)


def _smallest(rows: Sequence[Any], ending: str) -> Any:
    """Return the row with the smallest value of those whose name ends with `ending`, or None without such rows."""
    return min((row for row in rows if row["name"].endswith(ending)), key=itemgetter("value"), default=None)


_MET = {True: "yes", False: "**no**", None: ""}


def _value(row: Mapping[str, Any]) -> str:
    return f"{row['value']:.4g} {row['unit']}".strip()


def _machine(machine: Mapping[str, Any]) -> str:
    """Return the name of a kind of machine."""
    processor = machine["processor"].replace("(R)", "").removesuffix(" Processor")
    instructions = machine.get("instructions")
    return machine["gpu"] or (f"{processor} with {instructions}" if instructions else processor)


def _section(name: str, results: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join([f"## {name}", "", *(line for result in results for line in _result_lines(result))])


def _result_lines(result: Mapping[str, Any]) -> list[str]:
    machine, packages = result["machine"], result["machine"]["packages"]
    commit = (result["commit"] or "none")[:10] + (" (dirty)" if result["dirty"] else "")
    lines = [
        f"{_machine(machine)}, {machine['cores']} cores, {machine['memory_gib']} GiB. {result['date']}, "
        f"commit {commit}, torch {packages.get('torch')}, transformers {packages.get('transformers')}."
    ]
    lines += ["", "| figure | value | spread | n | target | met |", "| --- | ---: | ---: | ---: | --- | --- |"]
    for row in filter(itemgetter("target"), result["rows"]):
        met = _MET[row["met"]]
        spread_text = "" if row["spread"] is None else f"±{row['spread']:.3g}"
        value, target = _value(row), row["target"] or ""
        lines.append(f"| {row['name']} | {value} | {spread_text} | {row['n']} | {target} | {met} |")
    return [*lines, "", *[f"- {note}" for note in result["notes"]], ""]


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


_INSTRUCTIONS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 and bf16", "avx512f": "AVX-512", "avx2": "AVX2"}
"""CPU flags and their names on the page, fastest first. Processors with the same name can have different flags."""


def _instructions() -> str:
    """Return the fastest instructions for matrix products that this CPU has."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return ""
    return next((name for flag, name in _INSTRUCTIONS.items() if flag in flags), "")

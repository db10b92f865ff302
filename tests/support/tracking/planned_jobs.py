"""Jobs for tests of the recorder: real local processes that emit the events of a training."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tracking.groups.planned_job import DataSource, PlannedJob
from training.contract.job_spec import JobSpec

TRAIN_PY = """
import json, os, sys, time
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
steps, pause = int(arguments["--steps"]), float(arguments.get("--pause", "0"))
seq = 0
def say(event, **fields):
    global seq
    line = "trainfare-event " + json.dumps({"event": event, "seq": seq, "time": time.time(), **fields})
    os.write(1, (line + "\\n").encode())
    seq += 1
say("start", versions={"torch": "9"}, device={"kind": "cpu", "name": "test", "count": 1}, threads=1,
    hyperparameters={"batch_size": 4, "compiler": "none"}, model={},
    samples={"train": 4 * steps, "validation": 4})
for step in range(1, steps + 1):
    time.sleep(pause)
    say("metric", step=step, epoch=step / steps, samples=4 * step, values={"loss": 1 / step})
    if arguments.get("--die") == str(step):
        sys.exit("died on purpose")
say("phase", phase="train_steady", seconds=1.5)
say("result", metrics={"eval_accuracy": 0.75, "time/train_steady_seconds": 1.5}, tables={"t.json": [{"a": 1}]},
    cache_state="off", steps=steps)
"""


def source(folder: Path) -> Path:
    """Return a source folder with the script above."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "train.py").exists():  # several launchers may use the folder: none sees an incomplete file
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as new:
            new.write(TRAIN_PY)
        Path(new.name).replace(folder / "train.py")
    return folder


def planned(tmp_path: Path, name: str, repeat: int = 0, **hyperparameters: str | int | float) -> PlannedJob:
    """Return a planned job of that script."""
    spec = JobSpec(
        name=name,
        hyperparameters={"steps": 5, **hyperparameters},
        channels={},
        source_uri=source(tmp_path / "source").as_uri(),
        output_uri=(tmp_path / "output").as_uri(),
        environment={"TRAINFARE_CORES": "1"},
    )
    return planned_as(spec, "none", repeat)


def planned_as(spec: JobSpec, arm: str, repeat: int = 0, *, is_baseline: bool = True) -> PlannedJob:
    """Return that job as one of an arm's."""
    return PlannedJob(
        spec=spec,
        arm=arm,
        repeat=repeat,
        is_baseline=is_baseline,
        experiment_yaml="model: none\n",
        data=DataSource(name="data", source="a test", digest="d" * 64, rows={"train": 20, "validation": 4}),
        data_key="k",
    )

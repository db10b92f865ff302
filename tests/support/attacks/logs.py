"""Scripts that print much: the launcher and the job's supervisor need no more memory than for a short log."""

from __future__ import annotations

import threading
from pathlib import Path

from mlflow import MlflowClient

from benchmarks.support.peak_memory import run_measured

MAX_GROWTH_MIB = 100.0
SAMPLE_SECONDS = 0.05
SCRIPT = """\
import sys
kind, mib = sys.argv[2], int(sys.argv[4])
for number in range(mib):
    if kind == "lines":
        sys.stdout.write(f"{number:06} some words in a line of this log, which is not a metric\\n" * 16_384)
    elif kind == "endless line":
        sys.stdout.write("x" * 2**20)
    elif kind == "progress bar":
        sys.stdout.write(f"\\r{number:06} of a bar that writes its line again and again" * 18_000)
    elif kind == "metrics":
        sys.stdout.write(("." * 2_600 + f" loss={1 / (number + 1)}\\n") * 400)
print("\\nloss=0.5")
"""
EXPERIMENT = """\
script:
  source: code
  entry_point: print.py
  hyperparameters: {{kind: {kind}, mib: {mib}}}
  channels: {{train: code/print.py}}
  metrics: {{loss: 'loss=([0-9.]+)$'}}
machine: {{cores: 1}}
"""
KINDS = ("lines", "endless line", "progress bar", "metrics")


def attempt(folder: Path, kind: str, mib: int) -> tuple[float, float, str]:
    """Run a job that prints `mib` MiB. Return (peak MiB of launcher, of supervisor, fault or empty text)."""
    place = folder / f"{kind.replace(' ', '-')}-{mib}"
    (place / "code").mkdir(parents=True)
    (place / "code" / "print.py").write_text(SCRIPT)
    (place / "experiment.yaml").write_text(EXPERIMENT.format(kind=kind, mib=mib))
    uri, ended, peaks = f"sqlite:///{place}/mlflow.db", threading.Event(), [0.0]
    sampler = threading.Thread(target=_sample_supervisor, args=(str(place), ended, peaks))
    sampler.start()
    try:
        environment = {"TRAINFARE_HOME": str(place / "home"), "MLFLOW_TRACKING_URI": uri, "HF_HUB_OFFLINE": "1"}
        command = ["train", "--experiment", str(place / "experiment.yaml")]
        launcher = run_measured("experiments", command, environment).peak_mib
    except SystemExit as error:
        return 0.0, 0.0, str(error)
    finally:
        ended.set()
        sampler.join()
    return launcher, peaks[0], _fault(uri, mib)


def _fault(uri: str, mib: int) -> str:
    """Return the first thing that is wrong with the job's run, or empty text."""
    client = MlflowClient(uri)
    ids = [each.experiment_id for each in client.search_experiments()]
    [run] = client.search_runs(ids, "tags.\"platform.kind\" = 'job'")
    if run.data.metrics.get("loss") != 0.5:
        return f"the loss is {run.data.metrics.get('loss')}"
    size = next(each.file_size for each in client.list_artifacts(run.info.run_id) if each.path == "log.txt")
    return "" if (size or 0) >= 0.9 * mib * 2**20 else f"log.txt has {size} bytes"


def _sample_supervisor(place: str, ended: threading.Event, peaks: list[float]) -> None:
    while not ended.wait(SAMPLE_SECONDS):
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_text()
                if "training.services.local.supervisor" in command and place in command:
                    lines = (process / "status").read_text().splitlines()
                    peaks[0] = max(peaks[0], *(int(each.split()[1]) / 1024 for each in lines if "VmHWM" in each))
            except (OSError, ValueError, TypeError):
                continue  # the process ended meanwhile

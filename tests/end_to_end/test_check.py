"""`check`, and the check before `compare`, with real trainings."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.planning.job_source import make_job_source
from tests.end_to_end.conftest import CommandLine
from tests.support.answers import checked
from tests.support.job.tiny import TINY

pytestmark = [pytest.mark.slow, pytest.mark.gate]
ONE_EACH = {**TINY, "compare.repeats": 1, "precision": "fp32"}


def test_settings_that_change_only_the_time_show_no_difference(
    command_line: CommandLine, reviews: dict[str, object]
) -> None:
    arms = "{base: {attention: eager}, sdpa: {attention: sdpa}, large: {attention: eager, batch_size: 16}}"
    done = command_line("check", {**reviews, **ONE_EACH, "compare.arms": arms, "format": "json"})
    assert done.returncode == 0, done.stdout + done.stderr
    answer = checked("check", done.stdout)
    sdpa, large = answer["checks"]
    assert (sdpa["arm"], sdpa["answer"], sdpa["job"].endswith("-a1check")) == ("sdpa", "no difference", True)
    assert {finding["setting"] for finding in sdpa["findings"]} >= {"trainer", "attention"}
    assert [finding["reason"] for finding in large["findings"]] == ["batch_size changes what is learned"]
    assert "  large: not checked (batch_size changes what is learned)" in done.stderr
    assert [run.data.tags["platform.role"] for run in command_line.runs()] == ["check"]


def plant_fault(home: Path) -> None:
    """Let Trainer add the losses of a classifier's accumulated batches, instead of taking their mean."""
    source = make_job_source(home)
    trainer = source / "training" / "job" / "loop" / "job_trainer.py"
    text, sound = trainer.read_text(), "count * len(batches) * processes / total"
    assert sound in text
    trainer.write_text(text.replace(sound, "len(batches)"))
    (source.parent / f".{source.name}.sha256").unlink()


def test_an_arm_that_learns_something_else_is_refused(command_line: CommandLine, reviews: dict[str, object]) -> None:
    plant_fault(command_line.folder / "home")
    arms = "{base: {}, halves: {batch_size: 4, gradient_accumulation_steps: 2}}"
    fields = {**reviews, **ONE_EACH, "compare.arms": arms}
    refused = command_line("compare", {**fields, "compare.check": "refuse"})
    assert refused.returncode == 3, refused.stdout + refused.stderr
    sentence = "“halves”: different (gradient_accumulation_steps 2: loss differs by 1.0e+00 at step 1)."
    assert f"error: {sentence} Remove what is different, or train it with --compare.check off." in refused.stderr
    [group] = command_line.runs("group")
    assert (group.info.status, len(command_line.runs())) == ("FAILED", 1)

    done = command_line("compare", {**fields, "compare.check": "report"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert sentence in " ".join(done.stdout.split())
    roles = [run.data.tags.get("platform.role") for run in command_line.runs()]
    assert roles == ["check", "check", None, None]

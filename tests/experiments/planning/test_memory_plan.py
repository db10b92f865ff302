"""Memory of planned jobs: the device, the peaks of earlier jobs, and the jobs that cannot fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.dry_runs.command_plan import CommandPlan, JobEntry, blocks, summary
from experiments.planning.load import Arm, load
from experiments.planning.memory import GIB
from experiments.planning.memory_plan import MemoryPlan, check_memory, local_gpu_bytes, memory_of, memory_text
from experiments.planning.plan import job
from experiments.schema.experiment import Experiment
from reports.model.report import Definitions
from tests.support.reports.earlier_jobs import ended_job
from tests.support.requests.building import staged
from tracking.groups.planned_job import PlannedJob
from tracking.recorded.recorded_job import Job
from training.contract.errors import InputError

LLAMA_7B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "vocab_size": 32000,
}
MINILM = {
    "model_type": "bert",
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_attention_heads": 12,
    "num_hidden_layers": 6,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}


class Planned:
    """A job with the model of a configuration, and what it was planned from."""

    def __init__(self, folder: Path, config: dict[str, object], **changes: str) -> None:
        (folder / "model").mkdir(exist_ok=True)
        (folder / "model" / "config.json").write_text(json.dumps(config))
        self.experiment: Experiment = load("demo", {name.replace("__", "."): text for name, text in changes.items()})
        made = staged(folder, "rows", has_model=False)
        self.inputs = replace(made, channels={**made.channels, "model": (folder / "model").as_uri()})
        arm = Arm(label="only", experiment=self.experiment, is_baseline=True)
        self.job: PlannedJob = job("demo-a0r0", "demo", arm, 0, self.inputs, folder)

    def memory(self, *earlier: Job) -> MemoryPlan:
        plan = memory_of(self.job, self.experiment, self.inputs, earlier)
        assert plan is not None
        return plan

    def earlier(self, peak_gib: float, **text: str) -> Job:
        return ended_job(self.job, {"hp_precision": "fp32", **text}, {"memory_peak_resident_gib": peak_gib})


def shown(planned: Planned, plan: MemoryPlan) -> dict[str, str]:
    entry = JobEntry(
        planned=planned.job, experiment=planned.experiment, size=None, expected=None, request={}, memory=plan
    )
    made = blocks(CommandPlan(verb="train", name="demo", jobs=(entry,)))
    return {each.term: each.text for block in made if isinstance(block, Definitions) for each in block.definitions}


def test_the_error_is_that_of_earlier_trainings_with_their_own_settings(tmp_path: Path) -> None:
    planned = Planned(tmp_path, MINILM, precision="fp32", batch_size="32")
    own, small = planned.memory(), Planned(tmp_path, MINILM, precision="fp32", batch_size="8").memory()
    assert own.errors == ()
    assert memory_text(own).endswith("; not checked against a training yet")
    assert small.memory.peak < own.memory.peak
    twice = planned.earlier(own.memory.peak / 2 / GIB)
    checked = planned.memory(twice, planned.earlier(small.memory.peak / 1.5 / GIB, hp_batch_size="8"))
    assert checked.errors == pytest.approx((1.0, 0.5))
    assert memory_text(checked).endswith("the estimate was 75 % above the measured peaks of 2 trainings here")
    others = (
        planned.earlier(1.0, hp_model="another"),
        planned.earlier(1.0, role="calibration"),
        planned.earlier(0.0),
    )
    assert planned.memory(*others).errors == ()


def test_the_peak_of_a_gpu_is_compared_without_the_context(tmp_path: Path) -> None:
    planned = Planned(tmp_path, MINILM, service="sagemaker", machine__instance_type="ml.g5.xlarge")
    own = planned.memory()
    allocated = (own.memory.peak - own.memory.process) / GIB
    earlier = ended_job(planned.job, {"hp_precision": "bf16"}, {"memory_peak_allocated_gib": allocated / 0.92})
    assert planned.memory(earlier).errors == pytest.approx((-0.08,))
    text = shown(planned, planned.memory(earlier))["Memory"]
    assert " of 22.4 GiB on the A10G GPU of ml.g5.xlarge (weights 86.6 MiB, gradients 86.6 MiB, " in text
    assert text.endswith("the estimate was 8 % below the measured peak of 1 training here")


def test_a_batch_that_does_not_fit_is_a_warning(tmp_path: Path) -> None:
    fields = {"service": "sagemaker", "machine__instance_type": "ml.g4dn.xlarge", "max_length": "512"}
    planned = Planned(tmp_path, MINILM, **fields, batch_size="16384", padding="max_length", bucket_lengths="null")
    assert planned.memory().fits is False
    assert shown(planned, planned.memory())["Warning"].startswith("the estimate of ")
    check_memory(planned.job, planned.experiment, planned.inputs)


def test_weights_and_states_that_exceed_the_gpu_are_refused(tmp_path: Path) -> None:
    """6.6 billion parameters take 16 bytes each; with an adapter, only 4."""
    fields = {"service": "sagemaker", "machine__instance_type": "ml.g5.xlarge"}
    full = Planned(tmp_path, LLAMA_7B, **fields)
    with pytest.raises(
        InputError, match=r'arm "only" cannot fit: its 6,607,\d{3},\d{3} parameters take 98.5 GiB .* 22.4 GiB'
    ):
        check_memory(full.job, full.experiment, full.inputs)
    unknown = Planned(tmp_path, LLAMA_7B, service="sagemaker", machine__instance_type="ml.c5.xlarge")
    check_memory(unknown.job, unknown.experiment, unknown.inputs)
    assert unknown.memory().fits is None


def test_the_fields_of_the_json(tmp_path: Path) -> None:
    planned = Planned(tmp_path, MINILM, precision="fp32", machine__memory_gib="2")
    plan = planned.memory()
    entry = JobEntry(
        planned=planned.job, experiment=planned.experiment, size=None, expected=None, request={}, memory=plan
    )
    [made] = (summary(CommandPlan(verb="train", name="demo", jobs=(entry,))))["jobs"]
    memory, parts = made["memory"], ("weights", "optimizer", "activations", "process")
    assert memory["peak_bytes"] == pytest.approx(sum(memory["memory"][each] for each in parts))
    assert (memory["device"], memory["device_bytes"], memory["fits"]) == ("machine.memory_gib", 2 * GIB, True)
    assert memory["errors"] == []


def test_what_cannot_be_estimated_is_left_out(tmp_path: Path) -> None:
    planned = Planned(tmp_path, {**MINILM, "model_type": "deberta-v2"})
    assert memory_of(planned.job, planned.experiment, planned.inputs) is None
    (tmp_path / "model" / "config.json").unlink()
    assert memory_of(planned.job, planned.experiment, planned.inputs) is None


def test_the_memory_of_a_gpu_here_is_that_of_the_smallest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 81559\necho 24564\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert local_gpu_bytes() == 24564 * 2**20

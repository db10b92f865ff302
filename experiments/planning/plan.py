"""Plan the jobs of a group from the arms of an experiment. Pure: the same group always has the same jobs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import yaml

from experiments.planning.arms import Arm
from experiments.planning.batch_sizes import batch_sizes
from experiments.planning.hyperparameters import hyperparameters
from experiments.planning.inputs import Inputs
from experiments.planning.job_environment import environment
from experiments.planning.run_tags import SPOT_TERMS, run_tags
from experiments.planning.script_inputs import ScriptInputs
from experiments.schema import script_rules
from experiments.schema.experiment import Experiment
from experiments.schema.fields import BUDGET_FIELDS
from experiments.schema.machine_fields import Image
from judging.design import Design
from judging.round_order import round_order
from tracking.groups.planned_job import AGAIN, DataSource, ModelPlan, PlannedJob, ScriptPlan
from training.contract.job_spec import JobSpec, MetricDefinition
from training.staging.tasks import TASKS
from training.staging.tokens.staged import Staged

MACHINE_FIELDS = (
    *("instance_type", "fallback_instance_types", "instance_count", "devices", "launcher", "mpi_options"),
    *("model_parallel", "volume_gib", "max_run_seconds", "spot", "max_wait_seconds", "keep_alive_seconds"),
    "capacity_retry_minutes",
)
"""Fields of `machine` that a job takes unchanged."""

ANSWERING_FIELDS = ("max_length", "doc_stride", "n_best_answers", "max_answer_length")
"""Fields that control question answering, in evaluation and in the logged model."""

WITHOUT_EFFECT_ON_JOBS: Mapping[str, Any] = {
    **dict.fromkeys(("sweep", "published", "log_model", *BUDGET_FIELDS), True),
    "machine": {*SPOT_TERMS, "capacity_retry_minutes"},
}
"""Fields of an experiment that do not change its jobs."""

SOURCE = Path(__file__).resolve().parents[2] / "training" / "job"

METRIC_DEFINITIONS = tuple(
    MetricDefinition(name=name, regex=f"'{key}': ([0-9.e+-]+)")
    for name, key in (
        ("train_loss", "loss"),
        ("eval_loss", "eval_loss"),
        ("learning_rate", "learning_rate"),
        ("epoch", "epoch"),
        ("summary_train_loss", "train_loss"),
        ("summary_train_runtime", "train_runtime"),
        ("summary_train_samples_per_second", "train_samples_per_second"),
        ("summary_train_steps_per_second", "train_steps_per_second"),
    )
)
"""Metrics that the service reads from Trainer's log, with the names of the reference workloads."""


def group_key(
    verb: str,
    name: str,
    arms: Sequence[Arm],
    repeats: int,
    staged: Sequence[Inputs],
    design: Design | None = None,
    place: str = "",
) -> str:
    """Return the hash of a command's request. A command with an equal hash resumes the open group.

    `place` is the id of the state folder for local jobs: another folder or machine cannot follow them.
    """
    request = {
        "verb": verb,
        "name": name,
        "repeats": repeats,
        "arms": [
            (arm.label, arm.is_baseline, arm.experiment.model_dump(mode="json", exclude=WITHOUT_EFFECT_ON_JOBS))
            for arm in arms
        ],
        "data": [each.key for each in staged],
        "source": source_digest(),
        **({"design": asdict(design)} if design else {}),
        **({"place": place} if place else {}),
    }
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:32]


def source_digest(folder: Path = SOURCE) -> str:
    """Return the hash of the job's source code. After a change, the same settings are new jobs."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def plan(
    group_id: str,
    name: str,
    arms: Sequence[Arm],
    repeats: int,
    staged: Sequence[Inputs],
    home: Path,
    design: Design | None = None,
) -> list[PlannedJob]:
    """Return a group's jobs in rounds of one job of each arm: see `round_order`. `staged` has each arm's inputs.

    If the design repeats disturbed jobs, each job has a second one after all first ones, which runs only if needed.
    """
    seed = arms[0].experiment.seed
    rounds = [(repeat, at) for repeat in range(repeats) for at in round_order(len(arms), repeat, seed)]

    def jobs(suffix: str) -> list[PlannedJob]:
        return [
            job(
                f"{group_id}-{arms[at].experiment.compiler}-a{at}r{repeat}{suffix}",
                name,
                arms[at],
                repeat,
                staged[at],
                home,
            )
            for repeat, at in rounds
        ]

    if design is None or design.when_disturbed == "keep":
        return jobs("")
    return [*jobs(""), *(replace(each, tags={**each.tags, "platform.role": AGAIN}) for each in jobs("x"))]


def job(job_name: str, name: str, arm: Arm, repeat: int, staged: Inputs, home: Path) -> PlannedJob:
    """Return one job of an arm. `name` is the name of the experiment. Each repeat has a different seed."""
    experiment = arm.experiment.model_copy(update={"seed": arm.experiment.seed + repeat})
    machine = experiment.machine
    keeps_checkpoints = experiment.script is not None or experiment.save_strategy != "none"
    spec = JobSpec(
        name=job_name,
        compiler=experiment.compiler,
        compiler_debug=experiment.compiler_debug,
        **_program(experiment, staged),
        output_uri=(home / "outputs").as_uri(),
        checkpoint_uri=(home / "checkpoints" / job_name).as_uri() if keeps_checkpoints else None,
        **{name: getattr(machine, name) for name in MACHINE_FIELDS},
        **_image(machine.image),
        environment=environment(experiment, staged, home),
        network_uses=_network_uses(experiment, staged),
    )
    return PlannedJob(
        spec=spec,
        arm=arm.label,
        repeat=repeat,
        is_baseline=arm.is_baseline,
        experiment_yaml=_yaml(name, experiment),
        data=_data_source(experiment, staged),
        data_key=staged.channels.digest[:32] if isinstance(staged, ScriptInputs) else staged.key,
        script=_script_plan(experiment, staged),
        tags=run_tags(experiment),
        model=_model(experiment),
    )


def _network_uses(experiment: Experiment, staged: Inputs) -> tuple[str, ...]:
    if isinstance(staged, ScriptInputs):
        return staged.network_uses
    model = f"model {experiment.model!r} is downloaded from the Hub: download it first, and set model to its folder"
    return () if "model" in staged.channels else (model,)


def _image(image: Image | None) -> dict[str, Any]:
    image = image or Image()
    return {"image": image.uri or "local", "image_versions": image.versions()}


def _model(experiment: Experiment) -> ModelPlan | None:
    """Return the plan for logging the job's model, or None if the job keeps no model or `log_model` is none."""
    trains = experiment.calibration is None and experiment.probe is None
    keeps = experiment.script is not None or experiment.save_model
    if experiment.log_model == "none" or not (trains and keeps):
        return None
    is_of_pairs = experiment.data is not None and experiment.data.columns.text_pair is not None
    answering = {name: getattr(experiment, name) for name in ANSWERING_FIELDS}
    return ModelPlan(
        keeps=experiment.log_model,
        is_of_pairs=is_of_pairs and experiment.script is None,
        answering=answering if experiment.task == "question-answering" and experiment.script is None else {},
    )


def _program(experiment: Experiment, staged: Inputs) -> dict[str, Any]:
    """Return the fields of a JobSpec that select the program and its inputs: our own job, or the script."""
    if isinstance(staged, Staged):
        return {
            "hyperparameters": hyperparameters(experiment, staged.bucket_lengths),
            "channels": dict(staged.channels),
            "source_uri": SOURCE.as_uri(),
            "metric_definitions": METRIC_DEFINITIONS,
        }
    assert experiment.script is not None
    own = tuple(MetricDefinition(name=name, regex=regex) for name, regex in experiment.script.patterns.items())
    values = script_rules.hyperparameters(experiment)
    return {
        "hyperparameters": values,
        "channels": dict(staged.channels.uris),
        "channel_options": dict(staged.channels.options),
        "source_uri": staged.source.folder.as_uri(),
        "is_script": True,
        "program": experiment.script.program,
        "entry": staged.entry and staged.entry.carrying(values),
        "metric_definitions": own or METRIC_DEFINITIONS,
    }


def _script_plan(experiment: Experiment, staged: Inputs) -> ScriptPlan | None:
    if experiment.script is None or isinstance(staged, Staged):
        return None
    return ScriptPlan(
        regexes=experiment.script.patterns,
        hyperparameters=script_rules.logged_hyperparameters(experiment),
        batch=batch_sizes(experiment),
        packages=staged.environment.versions if staged.environment else {},
    )


def _yaml(name: str, experiment: Experiment) -> str:
    fields = experiment.model_dump(mode="json", exclude={"compare", "sweep", *BUDGET_FIELDS}, exclude_none=True)
    return f"# {name}, as resolved for this job\n" + yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)


def _data_source(experiment: Experiment, staged: Inputs) -> DataSource:
    if isinstance(staged, ScriptInputs):
        channels = staged.channels
        return DataSource(
            name=", ".join(channels.uris) or "none", source=channels.description, digest=channels.digest, rows={}
        )
    data = experiment.data
    assert data is not None
    name = data.builtin or (data.hub.name if data.hub else Path(str(data.train)).name)
    rows = {"train": staged.train_rows, "validation": staged.validation_rows}
    return DataSource(
        name=str(name),
        source=staged.source,
        digest=staged.digest,
        rows=rows,
        evaluation_key=staged.evaluation_key,
        label_names=staged.label_names,
        class_counts={"train": staged.train_class_counts, "validation": staged.validation_class_counts},
        columns=TASKS[experiment.task].column_types(data.columns),
        description=staged.description,
    )

"""Plan the jobs of a group from the arms of an experiment. Pure: the same group always has the same jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import yaml

from experiments.planning.inputs import QUALITY, Inputs, ScriptInputs, samples_per_step
from experiments.planning.job_source import job_source, source_digest
from experiments.planning.load import Arm
from experiments.schema.experiment import (
    Experiment,
    direction_of,
    logged_hyperparameters,
    referenced_fields,
    script_files,
    script_hyperparameters,
    script_values,
)
from experiments.schema.fields import BUDGET_FIELDS, Calibration, Compare
from experiments.schema.overrides import flat
from experiments.schema.sections import Image, declared_scales
from judging.design import Design
from judging.waves import round_order
from state.digests import digest, key_of
from state.home import compile_cache
from tracking.budgets.ledger import with_limit
from tracking.groups.plan_file import METRIC_SCALES
from tracking.groups.planned_job import (
    AGAIN,
    CALIBRATION,
    CHECK,
    DataSource,
    ModelPlan,
    PlannedJob,
    ScriptPlan,
    ScriptTarget,
)
from training.contract.job_spec import NOT_CHOSEN, Instances, JobSpec, MetricDefinition, Scalar, short_name
from training.contract.service import FIELDS_VARIABLE
from training.job.processes.ranks import CACHE_VARIABLE
from training.job.settings.declared import ADAPTER_PACKAGES, ADAPTER_SETTINGS, SETTINGS
from training.job.settings.declared import traits_of as setting_traits
from training.job.tasks import TASKS
from training.services.registry import traits_of
from training.services.supervision.container import PYTHON_VARIABLE, SECRET_VARIABLES
from training.services.supervision.supervise import MEASURE_VARIABLE
from training.staging.tokens.staged import CHANNELS, Staged, data_warnings

SPOT_TERMS = ("interruptions_per_hour", "spot_discount_percent")
"""Fields of `machine` from which the cost on spot capacity is estimated. They have no effect on jobs."""
WITHOUT_EFFECT_ON_JOBS: Mapping[str, Any] = {
    **dict.fromkeys(("sweep", "published", "log_model", *BUDGET_FIELDS), True),
    "machine": {*SPOT_TERMS, "capacity_retry_minutes"},
    "aws": {"credentials_wait_minutes"},
}
"""Fields of an experiment that do not change its jobs."""
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


# glibc's mallopt(3): large blocks come from the heap instead of mmap, and freed heap is not returned. So no step waits
# for the kernel to map and zero memory for its activations and gradients again.
KEEPING_ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
}


def design_of(compare: Compare) -> Design:
    """Return the looks after which arms may stop. With `stop: never`, there is only the last one."""
    earlier = [repeats for repeats in compare.looks if repeats < compare.repeats] if compare.stop == "early" else []
    looks = (*earlier, compare.repeats)
    return Design(
        looks=looks,
        least_gain=compare.least_gain,
        margin=compare.quality_margin,
        trainings=compare.trainings,
        when_disturbed=compare.when_disturbed,
    )


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
            (
                arm.label,
                arm.is_baseline,
                arm.experiment.model_dump(mode="json", exclude=WITHOUT_EFFECT_ON_JOBS),
                *arm.batch_sizes,
            )
            for arm in arms
        ],
        "data": [each.key for each in staged],
        **({"quality": own} if (own := [each for each in map(_quality, staged) if each]) else {}),
        "source": source_digest(),
        **({"design": asdict(design)} if design else {}),
        **({"place": place} if place else {}),
    }
    return key_of(request)


def _quality(staged: Inputs) -> str:
    """Return the digest of the user's quality function, or an empty text."""
    return staged.channels.get(QUALITY, "").rpartition("/")[2] if isinstance(staged, Staged) else ""


def plan(
    group_id: str,
    name: str,
    arms: Sequence[Arm],
    repeats: int,
    staged: Sequence[Inputs],
    home: Path,
    design: Design | None = None,
    seed_offset: int = 0,
) -> list[PlannedJob]:
    """Return a group's jobs in rounds of one job of each arm: see `round_order`. `staged` has each arm's inputs.

    If the design repeats disturbed jobs, each job has a second one after all first ones, which runs only if needed.
    """
    seed = arms[0].experiment.seed
    rounds = [(repeat, at) for repeat in range(repeats) for at in round_order(len(arms), repeat, seed)]

    def jobs(suffix: str) -> list[PlannedJob]:
        names = [f"{group_id}-{arms[at].experiment.compiler}-a{at}r{repeat}{suffix}" for repeat, at in rounds]
        return [
            job(each, name, arms[at], repeat, staged[at], home, seed_offset, group_id)
            for each, (repeat, at) in zip(names, rounds, strict=True)
        ]

    if design is None or design.when_disturbed == "keep":
        return jobs("")
    return [*jobs(""), *(replace(each, tags={**each.tags, "platform.role": AGAIN}) for each in jobs("x"))]


def calibration(group_id: str, name: str, arm: Arm, number: int, staged: Inputs, home: Path) -> PlannedJob:
    """Return the job that times the batch sizes of the group's arm `number`, as far as the data fills a step."""
    assert isinstance(staged, Staged)
    smallest = arm.batch_sizes[0]
    most = staged.train_rows * smallest // arm.experiment.global_batch_size
    sizes = tuple(size for size in arm.batch_sizes if size <= max(most, smallest))
    fields = {"batch_size": smallest, "calibration": Calibration(batch_sizes=sizes), "push_to_hub": None, "probe": None}
    experiment = arm.experiment.model_copy(update=fields)
    timed = replace(arm, label=f"{arm.label}, calibration", experiment=experiment, is_baseline=False)
    planned = job(f"{group_id}-{experiment.compiler}-a{number}auto", name, timed, 0, staged, home, group_id=group_id)
    return replace(planned, tags={"platform.role": CALIBRATION})


def check(group_id: str, name: str, arm: Arm, number: int, staged: Inputs, home: Path) -> PlannedJob:
    """Return the job that checks the group's arm `number` in a few steps."""
    experiment = arm.experiment.model_copy(update={**KEEPS_NOTHING, "batch_size": int(arm.experiment.batch_size)})
    checked = replace(arm, label=f"{arm.label}, check", experiment=experiment, is_baseline=False)
    planned = job(f"{group_id}-{experiment.compiler}-a{number}check", name, checked, 0, staged, home, group_id=group_id)
    spec = with_limit(planned.spec, min(planned.spec.max_run_seconds, CHECK_SECONDS))
    own = {
        "hyperparameters": {**spec.hyperparameters, "check_steps": CHECK_STEPS},
        # With the trainings' own cache, none of them would start cold.
        "environment": {**spec.environment, CACHE_VARIABLE: str(compile_cache(home) / "checks")},
    }
    return replace(planned, spec=spec.model_copy(update=own), tags={"platform.role": CHECK})


def job(
    job_name: str, name: str, arm: Arm, repeat: int, staged: Inputs, home: Path, offset: int = 0, group_id: str = ""
) -> PlannedJob:
    """Return one job of an arm of experiment `name`. Each repeat has another seed; `offset` shifts unless it is set."""
    job_name = short_name(job_name)
    first_seed = arm.experiment.seed + (0 if "seed" in arm.experiment.model_fields_set else offset)
    experiment = arm.experiment.model_copy(update={"seed": first_seed + repeat})
    machine, image = experiment.machine, experiment.machine.image or Image()
    keeps_checkpoints = experiment.script is not None or experiment.save_strategy != "none"
    instances = {name: getattr(machine, name) for name in Instances.model_fields}
    traits = traits_of(experiment.service)
    instances["instance_type"] = traits.instance_type or machine.instance_type
    if traits.machine_name:
        instances["instance_type"] = traits.machine_name(getattr(experiment, str(traits.section)), machine.devices)
    reads_aws = traits.reads_aws
    spec = JobSpec(
        name=job_name,
        compiler=experiment.compiler,
        compiler_debug=experiment.compiler_debug,
        **_program(experiment, staged, home),
        output_uri=(home / "outputs").as_uri(),
        checkpoint_uri=(home / "checkpoints" / job_name).as_uri() if keeps_checkpoints else None,
        **instances,
        image=image.uri or NOT_CHOSEN,
        image_versions=image.versions(),
        environment=environment(experiment, staged, home),
        request=experiment.aws.request if reads_aws else {},
        tags=cost_tags(name, group_id, arm.label) if reads_aws and experiment.aws.cost_tags else {},
    )
    fields = experiment.model_dump(mode="json", exclude={"compare", "sweep", *BUDGET_FIELDS}, exclude_none=True)
    text = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)
    return PlannedJob(
        spec=spec,
        arm=arm.label,
        repeat=repeat,
        is_baseline=arm.is_baseline,
        experiment_yaml=f"# {name}, as resolved for this job\n{text}",
        data=_data_source(experiment, staged),
        data_key=staged.channels.digest[:32] if isinstance(staged, ScriptInputs) else staged.key,
        script=_script_plan(experiment, staged),
        tags=run_tags(experiment) | _data_notes(staged),
        model=_model(experiment, staged),
        settings=_settings(experiment, arm.fields),
    )


def cost_tags(experiment: str, group: str, arm: str) -> dict[str, str]:
    """Return the tags by which AWS can report costs, without the characters that it refuses in values of tags."""
    values = {"trainfare:experiment": experiment, "trainfare:group": group, "trainfare:arm": arm}
    return {name: re.sub(r"[^\w .:/=+@-]", "_", value)[:256] for name, value in values.items() if value}


def _data_notes(staged: Inputs) -> dict[str, str]:
    """Return the tag with what is probably not meant in the data."""
    notes = data_warnings(staged.description) if isinstance(staged, Staged) else []
    return {"platform.data_notes": "; ".join(notes)[:MAX_NOTES_CHARACTERS]} if notes else {}


def _settings(experiment: Experiment, names: Iterable[str]) -> dict[str, str]:
    """Return the values of these fields as texts. A section has an entry for each of its fields."""
    values = dict(flat(experiment.model_dump(mode="json")))
    if experiment.script is not None:
        values |= script_values(experiment)
    fields = [[each for each in values if each.startswith(f"{name}.")] or [name] for name in names]
    return {name: str(values.get(name)) for each in fields for name in each}


def environment(experiment: Experiment, staged: Inputs, home: Path) -> dict[str, str]:
    """Return the variables of a job's request. A script's own variables come last."""
    machine, script, traits = experiment.machine, experiment.script, traits_of(experiment.service)
    variables: Mapping[str, object | None] = {
        "TRAINFARE_CORES": machine.cores,
        # torchrun kills 30 s after SIGTERM, which can be too early to write a checkpoint. A service kills after 120 s.
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": 110 if machine.devices * machine.instance_count > 1 else None,
        "TRAINFARE_MEMORY_GIB": machine.memory_gib,
        # A request must not contain the values of the job's secrets.
        SECRET_VARIABLES: ",".join(script.secrets) or None if script and not traits.runs_containers else None,
        FIELDS_VARIABLE: _service_fields(experiment),
        MEASURE_VARIABLE: 1 if script and traits.runs_here else None,
        CACHE_VARIABLE: _compile_cache(experiment, staged, home),
    }
    if isinstance(staged, ScriptInputs) and staged.environment:
        variables = {**variables, PYTHON_VARIABLE: staged.environment.python}
    texts = {variable: str(value) for variable, value in variables.items() if value is not None}
    return KEEPING_ALLOCATOR | texts | (script.environment if script else {})


def _service_fields(experiment: Experiment) -> str | None:
    """Return the fields of the service's own section as JSON. AWS's are read where the service is opened."""
    traits = traits_of(experiment.service)
    if traits.section is None or traits.reads_aws:
        return None
    section = getattr(experiment, traits.section)
    return json.dumps(section.model_dump(mode="json", exclude={"prices"}, exclude_defaults=True))


def _compile_cache(experiment: Experiment, staged: Inputs, home: Path) -> Path:
    """Return the folder of the compile cache: one per setting of a script, which does not report the cache's state."""
    if isinstance(staged, Staged):
        return compile_cache(home)
    assert experiment.script is not None
    fields = referenced_fields(experiment.script)
    setting = {name: value for name, value in script_values(experiment).items() if fields.get(name) != "seed"}
    key = digest(f"{staged.key} {json.dumps(setting, sort_keys=True)}", 16)
    return compile_cache(home) / f"script-{key}"


def _model(experiment: Experiment, staged: Inputs) -> ModelPlan | None:
    """Return the plan for logging the job's model, or None if the job keeps no model or `log_model` is none."""
    trains = experiment.calibration is None and experiment.probe is None
    keeps = experiment.script is not None or experiment.save_model
    if experiment.log_model == "none" or not (trains and keeps):
        return None
    if not isinstance(staged, Staged):
        return ModelPlan(keeps=experiment.log_model)
    is_of_pairs = experiment.data is not None and experiment.data.columns.text_pair is not None
    task = TASKS[experiment.task]
    options = {name: getattr(experiment, name) for name in task.answering_options}
    answering = task.recorded_options(options, staged.description.validation.remarks)
    return ModelPlan(keeps=experiment.log_model, is_of_pairs=is_of_pairs, answering=answering)


def _program(experiment: Experiment, staged: Inputs, home: Path) -> dict[str, Any]:
    """Return the fields of a JobSpec that select the program and its inputs: our own job, or the script."""
    if isinstance(staged, Staged):
        model = f"model {experiment.model!r} is downloaded from the Hub: download it first, and set model to its folder"
        uses = [] if "model" in staged.channels else [model]
        method = experiment.adapter.method if experiment.adapter else "frozen"
        by_field = {
            f"adapter.method {method}": ADAPTER_PACKAGES[method],
            f"task {experiment.task}": TASKS[experiment.task].packages,
        }
        uses += [f"{field} installs {' and '.join(packages)}" for field, packages in by_field.items() if packages]
        return {
            "hyperparameters": hyperparameters(experiment, staged.bucket_lengths, _quality(staged)),
            "channels": dict(staged.channels),
            "source_uri": job_source(home).as_uri(),
            "metric_definitions": METRIC_DEFINITIONS,
            "network_uses": tuple(uses),
            "requirements": tuple(package for packages in by_field.values() for package in packages),
        }
    assert experiment.script is not None
    own = tuple(MetricDefinition(name=name, regex=regex) for name, regex in experiment.script.patterns.items())
    values = script_hyperparameters(experiment)
    return {
        "hyperparameters": values,
        "channels": dict(staged.channels.uris),
        "channel_options": dict(staged.channels.options),
        "source_uri": staged.source.folder.as_uri(),
        "is_script": True,
        "program": experiment.script.program,
        "entry": staged.entry and staged.entry.carrying(values, script_files(experiment)),
        "metric_definitions": own or METRIC_DEFINITIONS,
        "network_uses": staged.network_uses,
    }


def _script_plan(experiment: Experiment, staged: Inputs) -> ScriptPlan | None:
    if experiment.script is None or isinstance(staged, Staged):
        return None
    target, is_max = experiment.target, _target(experiment).get("target_direction") == "max"
    return ScriptPlan(
        regexes=experiment.script.patterns,
        hyperparameters={**logged_hyperparameters(experiment), **_target(experiment)},
        samples_per_step=samples_per_step(experiment),
        higher_is_better={
            name: each.better == "higher" for name, each in experiment.script.metrics.items() if each.better
        },
        packages=staged.environment.versions if staged.environment else {},
        target=ScriptTarget(target.metric, target.value, is_max, target.stop) if target else None,
    )


def _target(experiment: Experiment) -> dict[str, Scalar | None]:
    """Return the hyperparameters of the target, with its direction; empty without one."""
    if (target := experiment.target) is None:
        return {}
    direction = direction_of(experiment, target.metric)
    stop: dict[str, Scalar | None] = {"target_stop": True} if target.stop else {}
    return {"target_metric": target.metric, "target_value": target.value, "target_direction": direction, **stop}


def _data_source(experiment: Experiment, staged: Inputs) -> DataSource:
    if isinstance(staged, ScriptInputs):
        origin = staged.channels.description
        return DataSource(name=origin, source=origin, digest=staged.channels.digest, rows={})
    data = experiment.data
    assert data is not None
    return DataSource(
        name=str(data.builtin or (data.hub.name if data.hub else Path(str(data.train)).name)),
        source=staged.source,
        digest=staged.digest,
        rows={"train": staged.train_rows, "validation": staged.description.validation.rows},
        evaluation_key=staged.evaluation_key,
        rows_key=staged.rows_key,
        label_names=staged.description.label_names,
        class_counts={each: getattr(staged.description, each).class_counts for each in CHANNELS},
        columns=TASKS[experiment.task].columns(data.columns),
        description=staged.description,
    )


def run_tags(experiment: Experiment) -> dict[str, str]:
    """Return the terms of spot capacity, the published figures, and the scales of a script's metrics."""
    tags: dict[str, str] = {}
    if traits_of(experiment.service).can_be_interrupted:
        terms = {name: getattr(experiment.machine, name) for name in SPOT_TERMS}
        tags |= {f"platform.{name}": f"{value:g}" for name, value in terms.items() if value is not None}
    if published := experiment.published:
        fields = {"source": published.source, "machine": published.machine, "figures": published.figures}
        tags["platform.published"] = json.dumps(fields)
    if experiment.script and (scales := declared_scales(experiment.script.metrics)):
        tags[METRIC_SCALES] = json.dumps(scales)
    return tags


MAX_NOTES_CHARACTERS = 4_000
"""Longest tag that every MLflow stores."""
KEEPS_NOTHING = {"save_model": False, "save_strategy": "none", "save_steps": None, "best_metric": None, "target": None}
"""Fields without effect in a calibration or a check, which keep nothing."""
CHECK_STEPS = 5
"""Optimizer steps of each training of a check."""
CHECK_SECONDS = 600
"""Longest time of a check."""


def hyperparameters(
    experiment: Experiment, bucket_lengths: Sequence[int], quality_digest: str = ""
) -> dict[str, Scalar]:
    """Return the arguments of `training/job/train.py`, without those that are not set."""
    if experiment.calibration is not None:
        experiment = experiment.model_copy(update=KEEPS_NOTHING)
    eval_strategy, eval_steps = experiment.evaluation
    arguments: dict[str, Scalar | None] = {
        **_shared_settings(experiment),
        **asdict(experiment.optimiser),
        "model": experiment.model or experiment.model_type,
        "weights": experiment.first_weights,
        "bucket_lengths": ",".join(map(str, bucket_lengths)) if experiment.padding in {"auto", "buckets"} else None,
        "eval_batch_size": experiment.eval_batch_size or experiment.batch_size,
        "eval_strategy": eval_strategy,
        "eval_steps": eval_steps,
        "quality_function": Path(experiment.quality).name if experiment.quality else None,
        "quality_digest": quality_digest or None,
    }
    arguments |= _target(experiment)
    for section in ("probe", "calibration"):
        arguments |= {f"{section}_{name}": value for name, value in getattr(experiment, section) or ()}
    if adapter := experiment.adapter:
        arguments |= {name: getattr(adapter, field.name) for name, field in ADAPTER_SETTINGS.items()}
        arguments |= {"adapter": None, "adapter_targets": ",".join(adapter.targets)}
    if calibration := experiment.calibration:
        arguments["calibration_batch_sizes"] = ",".join(map(str, calibration.batch_sizes))
    return {name: value for name, value in arguments.items() if value is not None}


def _shared_settings(experiment: Experiment) -> dict[str, Scalar | None]:
    """Return the settings that experiment and job share, with the options of no other compiler."""
    compilers = ("", experiment.compiler)
    return {
        name: getattr(experiment, name)
        for name, field in SETTINGS.items()
        if setting_traits(field).compiler in compilers
    }

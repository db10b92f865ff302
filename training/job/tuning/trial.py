"""Choose the values of `auto`: look up what was chosen before, or try a few real steps.

On a GPU, only attention is tried: rules decide the rest.

A field takes its value from the first of these that has one: the checkpoint that the job resumes from; the first job of
the same group on the same kind of machine; an earlier trial with the same machine, model, shapes and versions; a trial
now. Without the folder that `decision_files.FOLDER_VARIABLE` names, no trial runs and the rules decide, because jobs
that cannot share a choice could choose differently.
"""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

import torch

from attention import operation
from attention.cudnn import disable_cudnn_attention
from compilation import dropout
from measuring.machine_load import JOB_NAME, group_of
from measuring.meter import Meter
from reporting.events import Events
from settings.job_settings import Settings
from tuning.attention_candidates import attention_candidates
from tuning.attention_check import agrees
from tuning.candidates import try_candidates
from tuning.decision import ALLOWED, Decision, message
from tuning.decision_files import FOLDER_VARIABLE, DecisionFiles
from tuning.keys import group_key, setting_key
from tuning.thread_control import ThreadControl
from tuning.trial_steps import load_kernels
from weights.pretrained import can_set_attention, set_attention


class Chosen(NamedTuple):
    """Outcome of `choose`."""

    decision: Decision
    """Values, and the measurements behind them."""
    is_new: bool
    """True if this is the first job of its group with these values, so that they should be reported."""


def settle(
    settings: Settings, model: Any, control: ThreadControl, meter: Meter, events: Events, environment: Mapping[str, str]
) -> Tuple[Settings, Decision]:
    """Choose the values of `auto`, put them into effect and report them. Return the settings and the decision.

    The choice is timed as the phase `trial`, including the wait for the trial of another job.
    """
    control.check()
    if settings.device_kind == "cuda" and not settings.eval_padding.is_static:
        # cuDNN plans every new shape, and evaluations have at least as many shapes as the training.
        disable_cudnn_attention()
    settings = with_blockwise(with_attention_in_use(settings, model), model)
    is_open = bool(environment.get(FOLDER_VARIABLE) and open_fields(settings, model, control))
    if is_open and settings.device_kind == "cuda" and not settings.resumed:
        load_kernels(settings, model)
    with meter.phase("trial") if is_open else nullcontext():
        chosen, is_new = choose(settings, model, control, environment)
    # Another process of this job may have run the trial, but only the first process reports it.
    is_of_this_job = bool(chosen.source) and chosen.source == environment.get(JOB_NAME) and not settings.resumed
    if (is_new or is_of_this_job) and (text := message(chosen)):
        events.emit("note", message=text)
    if "threads" in chosen.values:
        torch.set_num_threads(chosen.values["threads"])
    settings = applied(settings, model, chosen.values)
    if settings.attention == operation.NAME:
        set_attention(model, operation.NAME)
    if settings.dropout == "bulk":
        dropout.install(settings.compiler.compiles_here)
    return settings, chosen


def with_attention_in_use(settings: Settings, model: Any) -> Settings:
    """On a GPU, replace `auto` with the implementation that transformers chose. With `padding: none`, keep `auto`."""
    in_use: Any = getattr(model.config, "_attn_implementation", None)
    is_auto = settings.attention == "auto" and settings.arguments.padding != "none" and settings.device_kind == "cuda"
    return replace(settings, attention=in_use) if is_auto and in_use in ALLOWED["attention"] else settings


def with_blockwise(settings: Settings, model: Any) -> Settings:
    """Return the settings with blockwise attention where `auto` prefers it, and make it available to the model.

    `auto` prefers it on a CPU, up to `hardware.LONGEST_EAGER_TOKENS`, if the model computes the same with it.
    """
    compiles = settings.compiler.compiles_here
    if settings.attention == operation.NAME:
        operation.register(compiles)
    is_open = settings.device_kind == "cpu" and settings.arguments.attention == "auto"
    if not is_open or settings.attention != "eager" or not can_set_attention(model):
        return settings
    if not getattr(model, "_supports_attention_backend", False) or not operation.register(compiles):
        return settings
    return replace(settings, attention=operation.NAME) if agrees(settings, model, operation.NAME) else settings


def choose(settings: Settings, model: Any, control: ThreadControl, environment: Mapping[str, str]) -> Chosen:
    """Return the values of the fields that are `auto` and that a trial may decide."""
    fields = open_fields(settings, model, control)
    saved = _saved(settings, fields)
    if settings.resumed:
        settings, fields = with_values(settings, saved), [name for name in fields if name == "threads"]
    if not fields or not environment.get(FOLDER_VARIABLE):
        return Chosen(Decision(saved), False)
    files = DecisionFiles(Path(environment[FOLDER_VARIABLE]))
    with files.locked():
        chosen = _shared(files, settings, model, fields, control, environment.get(JOB_NAME, ""))
    return chosen._replace(decision=replace(chosen.decision, values={**chosen.decision.values, **saved}))


def open_fields(settings: Settings, model: Any, control: ThreadControl) -> List[str]:
    """Return the fields that a trial may decide: those that are `auto` and have more than one candidate."""
    arguments = settings.arguments
    if settings.device_kind == "cuda":
        # A sharded model may not fit on one GPU.
        is_auto = arguments.attention == "auto" and settings.attention in ALLOWED["attention"]
        is_open = is_auto and arguments.sharding == "none" and can_set_attention(model)
        has_choice = is_open and (bool(settings.resumed) or len(attention_candidates(settings, model)) > 1)
        return ["attention"] if has_choice else []
    if settings.device_kind != "cpu":
        return []
    fields = ["precision"] if arguments.precision == "auto" else []
    # Long rows keep the default of transformers, which needs less memory.
    if arguments.attention == "auto" and settings.attention in ("blockwise", "eager") and can_set_attention(model):
        fields.append("attention")
    if arguments.dropout == "auto" and settings.dropout == "bulk":
        fields.append("dropout")
    return [*fields, "threads"] if control.largest > 1 else fields


def with_values(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return the settings with chosen values. The number of threads is not a setting."""
    return replace(settings, **{name: value for name, value in values.items() if name != "threads"})


def applied(settings: Settings, model: Any, values: Mapping[str, Any]) -> Settings:
    """Set the model's attention as chosen, and return the settings with the values that are now in effect."""
    values = dict(values)
    attention = values.get("attention")
    is_refused = attention == operation.NAME and settings.attention != attention
    if attention and settings.device_kind == "cuda" and not settings.resumed:
        # A job of the group with another precision or smaller batches may have chosen it.
        is_refused = attention not in attention_candidates(settings, model)
    if attention and (is_refused or not set_attention(model, attention)):
        # Another model of the group can use this implementation, but this one cannot.
        del values["attention"]
    return with_values(settings, values)


def _saved(settings: Settings, fields: List[str]) -> Dict[str, Any]:
    """Return the values with which the checkpoint was trained."""
    identity = settings.resumed[1].identity if settings.resumed else {}
    return {name: identity[name] for name in fields if identity.get(name) in ALLOWED[name]}


def _shared(
    files: DecisionFiles, settings: Settings, model: Any, fields: List[str], control: ThreadControl, job: str
) -> Chosen:
    """Return the decision that all jobs of the group share, and complete it if it lacks a field."""
    of_group = group_key(group_of(job), settings.device_kind) if job else None
    earlier = (files.read(of_group) if of_group else None) or Decision()
    chosen = earlier.only(fields)
    if not _missing(fields, chosen):
        return Chosen(_within(chosen, control.largest), False)
    setting = setting_key(settings, model, fields, control.largest)
    measured = (files.read(setting) or Decision()).only(fields)
    chosen = chosen.merged(measured)
    missing = _missing(fields, chosen)
    if missing:
        tried = try_candidates(with_values(settings, chosen.values), model, missing, control)
        tried = replace(tried, source=job)
        chosen, measured = chosen.merged(tried), measured.merged(tried)
        if tried.values and tried.is_complete and control.is_quiet:
            files.write(setting, measured)
    rule = {"threads": control.largest, **{name: getattr(settings, name) for name in fields if name != "threads"}}
    # Later jobs of the group take the same values, including those of fields that the trial had no time for.
    chosen = replace(chosen, values={**{name: rule[name] for name in fields}, **chosen.values})
    if of_group:
        files.write(of_group, chosen.merged(earlier))
    return Chosen(_within(chosen, control.largest), True)


def _missing(fields: List[str], decision: Decision) -> List[str]:
    return [name for name in fields if name not in decision.values]


def _within(decision: Decision, largest: int) -> Decision:
    """Return the decision with at most as many threads as this job may use."""
    if "threads" not in decision.values:
        return decision
    return replace(decision, values={**decision.values, "threads": min(decision.values["threads"], largest)})

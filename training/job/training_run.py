"""One training, from its settings to its result.

`run` reads from top to bottom:

1. Resolve the settings: parse the arguments, read and check the channels (`settings/job_settings.py`).
2. Load the model (`weights/pretrained.py`) and prepare it (`loop/prepared_model.py`). Build the trainer, with its
   callbacks: one reports progress (`loop/job_trainer.py`), and a probe adds one that ends the training early
   (`estimating/probe.py`).
3. Emit `start`, then train (`loop/job_trainer.py`). With a compiler, compile every batch shape before the first step
   (`loop/compile_phase.py`). A calibration measures its batch sizes at that point and skips the rest
   (`estimating/calibration.py`). A check runs short trainings instead of all this (`checking/check.py`).
4. Evaluate the last step if it is not evaluated yet. With `best_metric`, load the weights of the best evaluation.
5. Save the model, and emit `result`, the last event.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy
import pyarrow
import torch
import transformers

from training.job.checking import TABLE
from training.job.checking.check import Check
from training.job.data.channels import check_tokens
from training.job.data.padding import NO_WORK, Work
from training.job.estimating.calibration import CalibrationFinished, calibrate
from training.job.estimating.probe import Probe
from training.job.loop.attention_masks import check_separation
from training.job.loop.compile_phase import compile_planned
from training.job.loop.job_trainer import JobTrainer, Reporter
from training.job.loop.prepared_model import prepare
from training.job.measuring import hardware
from training.job.measuring.machine_load import MachineLoad
from training.job.measuring.meter import (
    Meter,
    attention_flops_per_pair,
    clock_for,
    decoder_share,
    multiplied_parameters,
    padding_metrics,
    throughput_metrics,
    time_metrics,
)
from training.job.processes import ranks
from training.job.processes.ranks import StopRequest
from training.job.processes.reporting import Events
from training.job.settings.job_settings import Settings, resolve_settings
from training.job.settings.training_identity import check_same, identity
from training.job.weights import adapters
from training.job.weights.checkpoints import CheckpointKeeper
from training.job.weights.pretrained import save_tokenizer, supports_token_types


def run(argv: Sequence[str], environment: Mapping[str, str], events: Events, stop: StopRequest) -> None:
    """Train with these arguments. The last event is the result."""
    hardware.set_threads(environment)
    ranks.configure_host()
    settings = resolve_settings(argv, environment, events)
    installed_seconds = hardware.installation_seconds(Path(__file__).parents[2] / "requirements.txt")
    model = _load_model(settings)
    parameters = model.num_parameters()
    settings = _drop_unsupported_token_types(settings, model)
    if settings.arguments.check_steps:
        events.emit("start", **_start_fields(settings, model, parameters))
        del model  # the check loads its own
        events.emit(
            "result",
            metrics=hardware.memory_metrics(settings.device_kind),
            tables={TABLE: Check(settings, _load_model, events).table()},
            cache_state=settings.compiler.cache_state(),
            global_batch_size=settings.global_batch_size,
            steps=0,
        )
        return
    load = MachineLoad(reads_gpu=settings.device_kind == "cuda").start()
    meter = Meter(
        clock_for(settings.device_kind),
        settings.arguments.steady_after_steps,
        lambda name, seconds: events.emit("phase", phase=name, seconds=seconds),
    )
    if installed_seconds is not None:
        meter.add_phase("install", installed_seconds)
    settings = prepare(model, settings)
    flops = (multiplied_parameters(model), attention_flops_per_pair(model), decoder_share(model))
    trainer = JobTrainer(settings, model, meter, _checkpoint_keeper(settings, model))
    if settings.train.metadata.is_packed:
        check_separation(model)
    reporter = _reporter(trainer, events, stop)
    probe = Probe(trainer, events) if settings.is_probe else None
    if probe:
        trainer.add_callback(probe)
    events.emit("start", **_start_fields(settings, model, parameters))
    try:
        trainer.train_from(settings.resumed[0] if settings.resumed else None)
    except CalibrationFinished as done:
        _emit_result(settings, trainer, done.metrics, events)
        return
    stop.end_if_requested()
    if reporter.evaluated_at_step != trainer.state.global_step:
        trainer.evaluate()
    if trainer.load_best_weights():
        # This evaluation only fills the tables. The metrics were already reported at the best step.
        reporter.is_quiet = True
        trainer.evaluate()
    size = _save(settings, trainer) if settings.arguments.save_model else {}
    metrics = {
        **size,
        **_result_metrics(settings, trainer, reporter, flops),
        **(probe.metrics() if probe else {}),
        **load.metrics(),
    }
    _emit_result(settings, trainer, {**metrics, **time_metrics(trainer.meter.phase_seconds)}, events)


def _load_model(settings: Settings) -> transformers.PreTrainedModel:
    # The seed determines the initial weights of new layers.
    transformers.set_seed(settings.arguments.seed)
    model: transformers.PreTrainedModel = settings.task.load_model(settings.pretrained, settings.train.metadata)
    folders = settings.folders
    for folder, channel in ((folders.train, settings.train), (folders.validation, settings.validation)):
        check_tokens(channel.rows, model.config.vocab_size, folder)
    settings.task.start_head(model, settings.train)
    return model


def _drop_unsupported_token_types(settings: Settings, model: transformers.PreTrainedModel) -> Settings:
    types = settings.train.rows.types
    if types is None or supports_token_types(model, int(types.max())):
        return settings
    train, validation = (
        replace(channel, rows=channel.rows.without_token_types()) for channel in (settings.train, settings.validation)
    )
    return replace(settings, train=train, validation=validation)


def _checkpoint_keeper(settings: Settings, model: transformers.PreTrainedModel) -> CheckpointKeeper:
    """Return the object that records and removes checkpoints.

    Raises `ArgumentError` when the checkpoint to resume from belongs to a different training.
    """
    this_training = identity(settings, model) if settings.saves or settings.resumed else {}
    if settings.resumed:
        check_same(settings.resumed[0], settings.resumed[1].identity, this_training)
    return CheckpointKeeper(
        settings.folders.checkpoints,
        settings.arguments.save_total_limit,
        this_training,
        settings.progress_before,
        settings.best,
        settings.target,
    )


def _reporter(trainer: JobTrainer, events: Events, stop: StopRequest) -> Reporter:
    def before_first_step() -> None:
        trainer.meter.add_phase("load", hardware.process_age_seconds())
        if trainer.settings.is_calibration:
            reporter.is_quiet = True
            raise CalibrationFinished(calibrate(trainer, events))
        if trainer.compiler.compiles_here:
            compile_planned(trainer, events)

    reporter = Reporter(trainer, events, stop, before_first_step)
    trainer.add_callback(reporter)
    return reporter


def _save(settings: Settings, trainer: JobTrainer) -> dict[str, int]:
    """Save the model. Return the size of its weights; only the main process knows it."""
    folder, adapter = settings.folders.model, settings.arguments.adapter
    with trainer.meter.phase("save"):
        if adapter and adapter.save == "merged" and adapters.is_attached(trainer.model):
            adapters.merge(trainer.model)
        trainer.save_model(str(folder))
        if not trainer.is_world_process_zero():
            return {}
        if adapters.is_attached(trainer.model):
            name, revision = settings.arguments.model or settings.model_location, settings.arguments.model_revision
            adapters.describe(trainer.model, adapters.Base(name, revision, settings.pretrained.quantized), folder)
        save_tokenizer(settings.model_location, settings.arguments.model_revision, folder)
        settings.task.write_files(trainer.model, settings.train.metadata, folder)
    weights = [path for path in folder.iterdir() if path.suffix in (".safetensors", ".bin")]
    # Trainer's arguments are in a file of their own. Its size depends on the paths of the machine.
    return {"model/bytes": sum(path.stat().st_size for path in weights if path.name != "training_args.bin")}


def _start_fields(settings: Settings, model: transformers.PreTrainedModel, parameters: int) -> dict[str, object]:
    trainable = sum(each.numel() for each in model.parameters() if each.requires_grad)
    trained = {"trainable_parameters": trainable} if settings.arguments.adapter else {}
    versions = {module.__name__: module.__version__ for module in (torch, transformers, pyarrow, numpy)}
    return {
        "versions": {"python": platform.python_version(), **versions},
        "device": hardware.describe(settings.device_kind, settings.processes),
        "threads": torch.get_num_threads(),
        "hyperparameters": settings.effective(),
        "samples": {"train": len(settings.train.rows), "validation": len(settings.validation.rows)},
        "model": {"architecture": type(model).__name__, "parameters": parameters, **trained},
        "resumed_from_step": settings.progress_before.step if settings.resumed else None,
    }


def _result_metrics(
    settings: Settings, trainer: JobTrainer, reporter: Reporter, flops: tuple[int, int | None, float]
) -> dict[str, object]:
    """Return the metrics of the `result` event. All processes must call this, because it sums their work."""
    meter, keeper, device = trainer.meter, trainer.keeper, trainer.args.device

    def sum_of(work: Work) -> Work:
        return Work(*map(int, ranks.sum_over_processes(work, device)))

    steady = meter.steady()
    steady_work = sum_of(steady.work if steady else NO_WORK)
    name = str(hardware.describe(settings.device_kind, settings.processes)["name"])
    peak = hardware.peak_flops_per_second(name) if settings.device_kind == "cuda" else None
    # Under Trainer's names.
    logged = {**reporter.summary, **reporter.scores_untrained, **reporter.last_evaluation}
    return {
        **{name: float(value) for name, value in logged.items() if isinstance(value, (int, float))},
        **throughput_metrics(
            steady,
            steady_work,
            flops[0],
            peak and peak * settings.processes,
            *flops[1:],
        ),
        **padding_metrics(sum_of(meter.work)),
        **hardware.memory_metrics(settings.device_kind),
        **settings.compiler.metrics(),
        **(keeper.target.metrics() if keeper.target else {}),
        **(keeper.best.metrics() if keeper.best else {}),
        "tokens": trainer.tokens_seen,
        "optim/global_batch_size": settings.global_batch_size,
    }


def _emit_result(settings: Settings, trainer: JobTrainer, metrics: dict[str, object], events: Events) -> None:
    events.emit(
        "result",
        metrics=metrics,
        tables=trainer.scorer.tables() if trainer.scorer else {},
        cache_state=settings.compiler.cache_state(),
        global_batch_size=settings.global_batch_size,
        steps=trainer.state.global_step,
    )

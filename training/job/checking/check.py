"""A check: short trainings that differ in one setting each, on the same weights, rows and random numbers.

The first one is plain (`plain.py`). The next is Trainer's, with plain settings, on all processes of the job. Each
further one has one more of the arm's settings, in single precision, so that the last one trains as the arm does. With
another precision, that and a plain training are repeated in it. Dropout is off by its rate, and the learning rate is
above zero from the first step. `judging/equivalence.py` judges the numbers.
"""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel, TrainerCallback

from training.job.checking.plain import (
    CHECKED_LAYERS,
    LOSS_SCALE,
    Record,
    keep_checked_layers,
    train_plainly,
    without_dropout,
)
from training.job.data.padding import TrainSampler
from training.job.loop.compile_phase import compile_planned
from training.job.loop.job_trainer import JobTrainer
from training.job.loop.prepared_model import prepare
from training.job.measuring import hardware
from training.job.measuring.meter import Meter, clock_for, multiplied_parameters
from training.job.processes import ranks
from training.job.processes.reporting import Events, Unsupported, failure_class
from training.job.settings.arguments import Arguments
from training.job.settings.declared import COMPILER_OPTIONS, PLAIN
from training.job.settings.job_settings import Settings, compiler_of
from training.job.weights.checkpoints import NO_PROGRESS, CheckpointKeeper

LARGEST_RATE = 1e-4
"""Learning rate at most. A training that diverges enlarges rounding from step to step, whatever its settings."""
STEP_FLOPS = {"cpu": 5e10, "cuda": 2e13}
"""Operations of a step on one device, of which there are several dozen in a check. They limit the rows of a batch, and
a larger model keeps only its first, middle and last layers."""
FEWEST_ROWS = 2
"""Rows of a batch at least: one row alone has no padding."""
ACCUMULATED_BATCHES = 2
"""Batches of a step with gradient accumulation."""

Load = Callable[[Settings], PreTrainedModel]
Row = dict[str, Any]


@dataclass(frozen=True)
class Training:
    """One training of a check, named after the setting in which it differs from the training `against`."""

    name: str
    value: str
    arguments: Arguments
    against: str = "plain"
    precision: str = "fp32"
    is_plain: bool = False
    unpacks: bool = False


class Check:
    """The trainings of one job's arm."""

    def __init__(self, settings: Settings, load: Load, events: Events) -> None:
        """`load` returns a new model with the initial weights."""
        # Each training loads the model, and the first one has reported what is new in it.
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self._settings, self._load, self._events = settings, load, events
        arguments, model = settings.arguments, load(settings)
        self._accumulated = min(arguments.gradient_accumulation_steps, ACCUMULATED_BATCHES)
        length = float(settings.train.metadata.max_length)
        if settings.padding_kind != "max_length":
            length = float(settings.train.rows.lengths.mean())

        def rows_within_flops() -> float:
            return STEP_FLOPS[settings.device_kind] / (6 * multiplied_parameters(model) * length * self._accumulated)

        self._is_cut = rows_within_flops() < FEWEST_ROWS and keep_checked_layers(model)
        self._rows = min(arguments.batch_size, max(FEWEST_ROWS, int(rows_within_flops())))
        self._steps = arguments.check_steps or 1
        self._batches = settings.processes * self._accumulated
        needed = self._steps * self._batches * self._rows
        order = np.random.Generator(np.random.PCG64(arguments.seed)).permutation(len(settings.train.rows))
        self._train = replace(settings.train, rows=settings.train.rows.select(np.resize(order, needed)))
        layers = f", with {CHECKED_LAYERS} of the model's layers" if self._is_cut else ""
        events.emit("note", message=f"check: {self._steps} steps of {self._batches * self._rows} rows{layers}")

    def table(self) -> list[Row]:
        """Run all trainings and return their rows."""
        records: dict[str, Record] = {}
        rows: list[Row] = []
        now = clock_for(self._settings.device_kind).now
        for training in self._trainings(records):
            start = now()
            described = {name: getattr(training, name) for name in ("name", "value", "against", "precision")}
            try:
                record = records[training.name] = self._run(training)
            except Exception as error:
                # If one of several processes is out of memory, the others wait for it.
                is_full = failure_class(error) == "OutOfMemory" and self._settings.processes == 1
                if not (is_full or isinstance(error, Unsupported)):
                    raise
                reason = "out of memory" if is_full else str(error)
                rows.append({**described, "step": 0, "not_checked": reason})
                continue
            before = records.get(training.against, record)
            numbered = zip(record.values, record.options_differ(before))
            rows += [
                {**described, "step": step, **values, "optimizer": difference}
                for step, (values, difference) in enumerate(numbered, 1)
            ]
            setting = f"{training.name} {training.value}".rstrip()
            self._events.emit("note", message=f"trained {setting} in {now() - start:.1f} s")
        return rows

    def _trainings(self, records: dict[str, Record]) -> Iterator[Training]:
        """Yield the trainings. A setting that a training cannot have in single precision is left out of later ones."""
        settings = self._settings
        is_packed = settings.train.metadata.is_packed
        plain = self._plain_arguments()
        yield Training("plain", "", plain, is_plain=True, unpacks=is_packed)
        if (precision := settings.precision) != "fp32":  # before kernels of Liger, which stay in the model's module
            yield Training(f"plain {precision}", "", plain, precision=precision, is_plain=True, unpacks=is_packed)
        before = "plain"
        if is_packed:
            yield Training("packing", "true", plain, is_plain=True)
            before = "packing"
        processes = f"{settings.processes} processes" if settings.processes > 1 else ""
        yield Training("trainer", processes, plain, against=before)
        before, current, whole = "trainer", plain, plain
        for name, changes in self._differences():
            whole = replace(whole, **changes)
            changed = replace(current, **changes)
            yield Training(name, str(changes[name]), changed, against=before)
            if name in records:
                before, current = name, changed
        if precision != "fp32":
            yield Training("precision", precision, whole, precision=precision)

    def _plain_arguments(self) -> Arguments:
        arguments = self._settings.arguments
        compiler = {name: getattr(Arguments, name) for name in COMPILER_OPTIONS}
        return replace(
            arguments,
            **PLAIN,
            **compiler,
            batch_size=self._rows * self._accumulated,
            learning_rate=min(arguments.learning_rate, LARGEST_RATE),
            epochs=None,
            max_steps=self._steps,
            warmup_samples=0,
            max_grad_norm=arguments.max_grad_norm or 1e6,  # clipping also computes the norm
            logging_steps=self._steps,
            eval_strategy="end",
            save_strategy="none",
            best_metric=None,
            target_metric=None,
            quality_function=None,
        )

    def _differences(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each setting that is not plain, with the arguments that it changes."""
        arguments = self._settings.arguments
        for name, plain in PLAIN.items():
            value = self._settings.padding_kind if name == "padding" else getattr(arguments, name)
            if name == "precision" or value in (plain, None):
                continue
            changes = {name: value}
            if name == "gradient_accumulation_steps":
                changes = {name: self._accumulated, "batch_size": self._rows}
            if name == "compiler":
                changes |= {option: getattr(arguments, option) for option in COMPILER_OPTIONS}
            yield name, changes

    def _run(self, training: Training) -> Record:
        gc.collect()  # the earlier model, which its trainer refers to
        settings, arguments = self._settings, training.arguments
        kind, length = settings.device_kind, settings.train.metadata.max_length
        has_own_attention = arguments.padding == "none"
        settings = replace(
            settings,
            arguments=arguments,
            compiler=compiler_of(arguments),
            precision=training.precision,
            attention="auto" if has_own_attention else hardware.attention(arguments.attention, kind, length),
            train=self._train,
            folders=replace(settings.folders, checkpoints=None, quality=None),
            resumed=None,
        )
        model = self._load(settings)
        if self._is_cut:
            keep_checked_layers(model)
        settings = prepare(model, settings)
        without_dropout(model)
        if training.is_plain:
            return train_plainly(settings, model, self._steps, self._batches, unpacks=training.unpacks)
        trainer = CheckedTrainer(settings, model, self._events)
        trainer.train_from(None)
        return trainer.record


class CheckedTrainer(JobTrainer):
    """Trainer that records its steps, on rows in their order."""

    def __init__(self, settings: Settings, model: PreTrainedModel, events: Events) -> None:
        meter = Meter(clock_for(settings.device_kind), 0, lambda name, seconds: None)
        super().__init__(settings, model, meter, CheckpointKeeper(None, 1, {}, NO_PROGRESS, None, None))
        if self.accelerator.scaler is not None:
            self.accelerator.scaler = torch.amp.GradScaler(settings.device_kind, LOSS_SCALE)
        self.record = Record()
        self.sampler = RowsInOrder(
            settings.train.rows.lengths, settings.arguments.batch_size, settings.processes, 0, grouped=False
        )
        self._losses: list[torch.Tensor] = []
        self._norm: object = 0.0
        clip = self.accelerator.clip_grad_norm_

        def clip_and_keep(*args: object, **kwargs: object) -> object:
            self._norm = clip(*args, **kwargs)
            return self._norm

        self.accelerator.clip_grad_norm_ = clip_and_keep
        self.add_callback(_Steps(self, events))

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = super().training_step(*args, **kwargs)
        self._losses.append(loss)
        return loss

    def add_step(self) -> None:
        """Record the step whose gradients are complete."""
        [loss] = ranks.sum_over_processes([float(sum(self._losses)) / ranks.count()], self.args.device)
        self._losses.clear()
        self.record.add(loss, self._norm, self.model, self.optimizer)

    def compile(self, events: Events) -> None:
        if self.compiler.compiles_here:
            compile_planned(self, events)
            self._losses.clear()


class RowsInOrder(TrainSampler):
    def order(self, epoch: int) -> np.ndarray:
        return np.arange(self._rows)


class _Steps(TrainerCallback):  # type: ignore[misc]
    def __init__(self, trainer: CheckedTrainer, events: Events) -> None:
        self._trainer, self._events = trainer, events

    def on_train_begin(self, *_: object, **__: object) -> None:
        self._trainer.compile(self._events)

    def on_pre_optimizer_step(self, *_: object, **__: object) -> None:
        self._trainer.add_step()

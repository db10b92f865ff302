"""What one job was told and what it found: settled before anything is trained."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from checkpoints import checkpoint_files
from checkpoints.best_evaluation import BestEvaluation
from checkpoints.checkpoint_files import NO_PROGRESS, Progress
from checkpoints.target import Target
from compilation.compilers import COMPILERS, NoCompiler
from data.channels import Channel, read_channel
from data.padding import Padding
from measuring import hardware
from processes import ranks
from reporting.errors import ArgumentError, BadData
from reporting.events import Events
from settings.arguments import Arguments, parse
from settings.folders import Folders, folders
from settings.trainer_arguments import global_batch_size
from tasks import TASKS
from weights.pretrained import Pretrained


@dataclass(frozen=True)
class Settings:
    """Everything that stands before the model is loaded."""

    arguments: Arguments
    """As given."""
    places: Folders
    """Where the files are."""
    compiler: NoCompiler
    """Checked, not yet applied."""
    device_kind: str
    """cpu | cuda | xla."""
    precision: str
    """fp32 | bf16 | fp16; never auto."""
    processes: int
    """One a device."""
    train: Channel
    """Training rows."""
    validation: Channel
    """Validation rows."""
    resumed: Optional[Tuple[Path, Progress]]
    """Checkpoint to go on from, and how far it had come."""

    @property
    def model_location(self) -> str:
        """The folder of the channel `model`, else the name on the Hub."""
        return str(self.places.pretrained or self.arguments.model)

    @property
    def pretrained(self) -> Pretrained:
        """What the training starts from."""
        arguments = self.arguments
        attention = hardware.attention(arguments.attention, self.device_kind, self.train.metadata.max_length)
        return Pretrained(self.model_location, arguments.model_revision, arguments.weights, attention)

    @property
    def task(self) -> Any:
        """The module of what is learnt."""
        return TASKS[self.arguments.task]

    @property
    def global_batch_size(self) -> int:
        """Samples of one optimizer step, over all devices."""
        return global_batch_size(self.arguments, self.processes)

    @property
    def padding(self) -> Padding:
        """Of the training batches."""
        arguments = self.arguments
        compiles = self.compiler.compiles_here
        return Padding(
            arguments.padding, self.train.metadata.max_length, arguments.bucket_lengths, leaves_room=compiles
        )

    @property
    def eval_padding(self) -> Padding:
        """Of the evaluation's batches: eager code has no use for buckets, XLA has."""
        kind = "longest" if self.padding.kind == "buckets" and self.device_kind != "xla" else self.padding.kind
        return Padding(kind, self.validation.metadata.max_length, self.arguments.bucket_lengths)

    @property
    def evaluated(self) -> Channel:
        """What is evaluated: rows of like length share a batch, and the scores do not depend on the order."""
        validation = self.validation
        if self.evaluates_sample:
            validation = validation.sample(self.arguments.probe_eval_samples)
        return validation.sorted_by_length()

    @property
    def is_probe(self) -> bool:
        """Whether the training is cut off once it is certain how long it would take."""
        return self.arguments.probe_precision is not None

    @property
    def is_calibration(self) -> bool:
        """Whether steps of several batch sizes are measured, and nothing is trained."""
        return bool(self.arguments.calibration_batch_sizes)

    @property
    def evaluates_sample(self) -> bool:
        """Whether an evaluation is only to tell how long a whole one would take."""
        return self.is_probe or self.is_calibration

    @property
    def saves(self) -> bool:
        """Whether checkpoints are written."""
        return self.arguments.save_strategy != "none"

    @property
    def unfinished_checkpoints(self) -> Optional[Path]:
        """Where a checkpoint is written until it is whole; None where none is written.

        What other machines than the first write is sent to the first (see `machines`).
        """
        if not self.saves or self.places.checkpoints is None:
            return None
        return checkpoint_files.unfinished(self.places.checkpoints if ranks.on_first_host() else self.places.output)

    @property
    def progress_before(self) -> Progress:
        """How far earlier starts had come."""
        return self.resumed[1] if self.resumed else NO_PROGRESS

    @property
    def target(self) -> Optional[Target]:
        """What the training is meant to reach."""
        arguments = self.arguments
        if arguments.target_metric is None or arguments.target_value is None:
            return None
        # A probe goes on until it is certain how long the training to its end would take.
        stops = arguments.target_stop and not self.is_probe
        target = Target(arguments.target_metric, arguments.target_value, arguments.target_direction, stops=stops)
        # Reached by an earlier start, if the target was the same.
        reached = self.progress_before.target or {}
        before = Target(**reached) if reached else target
        same = replace(before, seconds=None, samples=None) == target
        return replace(before, stops=stops) if same else target

    @property
    def best(self) -> Optional[BestEvaluation]:
        """The best evaluation of earlier starts, to be found on; None looks for none."""
        metric = self.arguments.best_metric
        return BestEvaluation(**(self.progress_before.best or {"metric": metric})) if metric else None

    def effective(self) -> Dict[str, Any]:
        """Return the hyperparameters that count: those given, with what was left to the job filled in."""
        return {**asdict(self.arguments), "precision": self.precision, "attention": self.pretrained.attention}


def settle(words: Sequence[str], environment: Mapping[str, str], events: Events) -> Settings:
    """Return the settings. Raises `ArgumentError`, `BadData` or `Unsupported` for what cannot be."""
    arguments = parse(words)
    places = folders(environment)
    compiler = COMPILERS[arguments.compiler]()
    compiler.check()
    device_kind = compiler.device_kind or hardware.device_kind()
    train, validation = (_channel(folder, arguments.task) for folder in (places.train, places.validation))
    _check_together(arguments, places, train, validation)
    return Settings(
        arguments=arguments,
        places=places,
        compiler=compiler,
        device_kind=device_kind,
        precision=hardware.precision(arguments.precision, device_kind),
        processes=ranks.count(),
        train=train,
        validation=validation,
        resumed=_resumed(places, events),
    )


def _channel(folder: Path, task: str) -> Channel:
    channel = read_channel(folder, task, TASKS[task].COLUMNS)
    TASKS[task].check(channel)
    return channel


def _resumed(places: Folders, events: Events) -> Optional[Tuple[Path, Progress]]:
    if places.checkpoints is None:
        return None
    return checkpoint_files.newest(places.checkpoints, lambda message: events.emit("note", message=message))


def _check_together(arguments: Arguments, places: Folders, train: Channel, validation: Channel) -> None:
    if places.pretrained is None and not arguments.model:
        raise ArgumentError("model is not given: name a model on the Hub, or give the job a channel 'model'")
    if arguments.save_strategy != "none" and places.checkpoints is None:
        raise ArgumentError(
            f"save_strategy is {arguments.save_strategy!r}, but there is no folder for checkpoints: "
            "set SM_CHECKPOINT_DIR, or give the job a checkpoint URI"
        )
    batch = arguments.batch_size * ranks.count()
    if arguments.drop_last and train.metadata.rows < batch:
        raise BadData(f"drop_last leaves nothing: {places.train} has {train.metadata.rows} rows, a batch takes {batch}")
    if train.metadata.label_names != validation.metadata.label_names:
        raise BadData(f"{places.train} and {places.validation} name different classes")

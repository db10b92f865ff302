"""Settings of one job: its arguments, folders and data, resolved before the training starts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from training.job.compilation.compilers import Inductor, NoCompiler
from training.job.data.channels import Channel, read_channel
from training.job.data.padding import Padding, padding_kind
from training.job.measuring import hardware
from training.job.processes import ranks
from training.job.processes.reporting import Events, Unsupported
from training.job.settings.arguments import Arguments, parse
from training.job.settings.declared import ADAPTER_PREFIX, CUDA_GRAPH_MODES, SHARDING_SINCE
from training.job.tasks import TASKS, Task
from training.job.tasks.own_quality import OwnQuality
from training.job.weights.checkpoints import NO_PROGRESS, UNFINISHED, BestEvaluation, Progress, Target, newest
from training.job.weights.pretrained import Pretrained

RESUMED_VALUES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "cpu": {"precision": ("fp32", "bf16"), "attention": ("blockwise", "eager", "sdpa")},
    "cuda": {"attention": ("eager", "sdpa", "flash_attention_2")},
}
"""Values of `auto` that a resumed job takes from its checkpoint, by kind of device and field."""
TOKENS_OF_TENSOR_CORES = 8
"""Multiple of tokens with which tensor cores multiply 16 bits at full speed (NVIDIA, "Train With Mixed Precision")."""


@dataclass(frozen=True)
class Folders:
    """The folders of one job, from the `SM_*` variables of SageMaker's script mode."""

    model: Path
    """Folder for the trained model, from which the service makes the model artifact."""
    output: Path
    """Folder for the file `failure`."""
    output_data: Path
    """Folder for `events.jsonl` and other output files."""
    train: Path
    """Channel with the training rows."""
    validation: Path
    """Channel with the validation rows."""
    pretrained: Path | None
    """Channel with the initial model. None loads the model from the Hub."""
    checkpoints: Path | None
    """Folder for checkpoints, which the service keeps when the job is interrupted. None if there is no such folder."""
    quality: Path | None = None
    """Channel with the user's own quality function. None if the job has none."""


@dataclass(frozen=True)
class Settings:
    """Everything that is known before the model is loaded."""

    arguments: Arguments
    """The job's arguments."""
    folders: Folders
    """The container's folders."""
    compiler: NoCompiler
    """Compiler, not yet applied."""
    device_kind: str
    """cpu | cuda."""
    precision: str
    """fp32 | bf16 | fp16 | fp8; never auto."""
    attention: str
    """Attention implementation; auto leaves it to transformers."""
    processes: int
    """Number of processes, one per device."""
    train: Channel
    """Training rows."""
    validation: Channel
    """Validation rows."""
    resumed: tuple[Path, Progress] | None
    """Checkpoint to resume from, and its progress; None for a new training."""

    @property
    def model_location(self) -> str:
        """Folder of the channel `model` if the job has one, else the name on the Hub."""
        return str(self.folders.pretrained or self.arguments.model)

    @property
    def pretrained(self) -> Pretrained:
        """Source of the initial model."""
        arguments = self.arguments
        quantized = arguments.adapter is not None and arguments.adapter.method == "qlora"
        return Pretrained(self.model_location, arguments.model_revision, arguments.weights, self.attention, quantized)

    @property
    def task(self) -> Task:
        """The task that the job trains."""
        return TASKS[self.arguments.task]

    @property
    def global_batch_size(self) -> int:
        """Samples per optimizer step, over all devices."""
        return self.arguments.batch_size * self.arguments.gradient_accumulation_steps * self.processes

    @property
    def padding_kind(self) -> str:
        """Kind of padding, with `auto` resolved."""
        return padding_kind(self.arguments.padding, self.device_kind, self.compiler.compiles_here)

    @property
    def padding(self) -> Padding:
        """Padding of training batches."""
        return Padding(
            self.padding_kind,
            self.train.metadata.max_length,
            self.arguments.bucket_lengths,
            leaves_room=self.compiler.compiles_here,
            multiple=TOKENS_OF_TENSOR_CORES if self.device_kind == "cuda" else 1,
        )

    @property
    def eval_padding(self) -> Padding:
        """Padding of evaluation batches. Buckets limit compilations, and no compiler compiles it."""
        kind = "longest" if self.padding.kind == "buckets" else self.padding.kind
        return Padding(kind, self.validation.metadata.max_length, self.arguments.bucket_lengths)

    @property
    def evaluated(self) -> Channel:
        """Rows to evaluate, sorted by length to reduce padding. Scores do not depend on the order."""
        rows = self.validation.rows
        if self.evaluates_sample:
            rows = rows.sample(self.arguments.probe_eval_samples)
        return replace(self.validation, rows=rows.sorted_by_length())

    @property
    def is_probe(self) -> bool:
        """True if the training ends once its projected duration is precise enough."""
        return self.arguments.probe_precision is not None

    @property
    def is_calibration(self) -> bool:
        """True if the job measures steps of several batch sizes and trains nothing."""
        return bool(self.arguments.calibration_batch_sizes)

    @property
    def evaluates_sample(self) -> bool:
        """True if evaluations use a sample of the rows, because only their duration is of interest."""
        return self.is_probe or self.is_calibration

    @property
    def saves(self) -> bool:
        """True if the job writes checkpoints."""
        return self.arguments.save_strategy != "none"

    @property
    def unfinished_checkpoints(self) -> Path | None:
        """Folder of a checkpoint until it is complete; None if the job writes no checkpoints.

        Processes on other hosts write to a temporary folder and send its content to the first host (see
        `ranks.gather_random_states`).
        """
        if not self.saves or self.folders.checkpoints is None:
            return None
        return (self.folders.checkpoints if ranks.on_first_host() else self.folders.output) / UNFINISHED

    @property
    def progress_before(self) -> Progress:
        """Progress of the job's earlier starts."""
        return self.resumed[1] if self.resumed else NO_PROGRESS

    @property
    def target(self) -> Target | None:
        """Target of the training, or None."""
        arguments = self.arguments
        if arguments.target_metric is None or arguments.target_value is None:
            return None
        # A probe ignores the target: it continues until its projection is precise enough.
        stops = arguments.target_stop and not self.is_probe
        target = Target(arguments.target_metric, arguments.target_value, arguments.target_direction, stops=stops)
        # An earlier start may have reached the target, which counts if the target is still the same.
        recorded = self.progress_before.target or {}
        before = Target(**recorded) if recorded else target
        same = replace(before, seconds=None, samples=None) == target
        return replace(before, stops=stops) if same else target

    @property
    def quality(self) -> OwnQuality | None:
        """The user's own quality function; None without one, and where only the evaluation's duration is of interest.

        Raises `ArgumentError` if its file cannot be imported.
        """
        arguments, folder = self.arguments, self.folders.quality
        if arguments.quality_function is None or self.evaluates_sample:
            return None
        assert folder is not None, "the request has the channel if it has the argument"
        return OwnQuality(folder, arguments.quality_function, (arguments.target_metric, arguments.best_metric))

    @property
    def best(self) -> BestEvaluation | None:
        """Best evaluation of earlier starts; None if `best_metric` is not set."""
        metric = self.arguments.best_metric
        return BestEvaluation(**(self.progress_before.best or {"metric": metric})) if metric else None

    def effective(self) -> dict[str, Any]:
        """Return the effective hyperparameters: the arguments, with `auto` resolved where the job decides."""
        resolved = {name: getattr(self, name) for name in ("precision", "attention")}
        buckets = self.arguments.bucket_lengths if self.padding_kind == "buckets" else ()
        values = asdict(self.arguments)
        adapter = {ADAPTER_PREFIX + name: value for name, value in (values.pop("adapter") or {}).items()}
        return {**values, **adapter, **resolved, "padding": self.padding_kind, "bucket_lengths": buckets}


def resolve_settings(argv: Sequence[str], environment: Mapping[str, str], events: Events) -> Settings:
    """Return the settings. Raises `ArgumentError`, `BadData` or `Unsupported` if they are invalid."""
    arguments = parse(argv)
    folders = read_folders(environment)
    device_kind = hardware.device_kind()
    if device_kind == "cpu" and torch.version.cuda and environment.get("CUDA_VISIBLE_DEVICES"):
        problem = f"its NVIDIA driver may be too old for CUDA {torch.version.cuda}, see nvidia-smi"
        events.emit("note", message=f"PyTorch cannot use this machine's GPU, so the job trains on the CPU: {problem}")
    check_sharding(arguments, torch.__version__)
    resumed = None
    if folders.checkpoints is not None:
        resumed = newest(folders.checkpoints, lambda message: events.emit("note", message=message))
    arguments = _with_resumed_values(arguments, device_kind, resumed)
    task = TASKS[arguments.task]
    train, validation = (
        read_channel(folder, arguments.task, task.integer_columns, task.list_columns, task.number_columns)
        for folder in (folders.train, folders.validation)
    )
    return Settings(
        arguments=arguments,
        folders=folders,
        compiler=compiler_of(arguments),
        device_kind=device_kind,
        precision=hardware.precision(arguments.precision, device_kind),
        # Without padding, the loaded model gets an implementation of our own.
        attention=arguments.attention
        if arguments.padding == "none"
        else hardware.attention(arguments.attention, device_kind, train.metadata.max_length),
        processes=ranks.count(),
        train=train,
        validation=validation,
        resumed=resumed,
    )


def compiler_of(arguments: Arguments) -> NoCompiler:
    """Return the compiler that the job's arguments name, with its options."""
    if arguments.compiler == "inductor":
        mode = arguments.compile_mode
        return Inductor(arguments.compile_scope, mode, records_cuda_graphs=mode in CUDA_GRAPH_MODES)
    return NoCompiler()


def read_folders(environment: Mapping[str, str]) -> Folders:
    """Return the folders that the environment names."""

    def optional(variable: str) -> Path | None:
        return Path(environment[variable]) if environment.get(variable) else None

    # SageMaker synchronises this folder with S3, if it exists.
    synchronised = Path(environment.get("SAGEMAKER_BASE_DIR") or "/opt/ml") / "checkpoints"
    return Folders(
        model=Path(environment["SM_MODEL_DIR"]),
        output=Path(environment["SM_OUTPUT_DIR"]),
        output_data=Path(environment["SM_OUTPUT_DATA_DIR"]),
        train=Path(environment["SM_CHANNEL_TRAIN"]),
        validation=Path(environment["SM_CHANNEL_VALIDATION"]),
        pretrained=optional("SM_CHANNEL_MODEL"),
        checkpoints=optional("SM_CHECKPOINT_DIR") or (synchronised if synchronised.is_dir() else None),
        quality=optional("SM_CHANNEL_QUALITY"),
    )


def check_sharding(arguments: Arguments, version: str) -> None:
    """Raise `Unsupported` if this version of torch, such as `2.6.0`, cannot shard a model."""
    if arguments.sharding != "none" and tuple(int(part) for part in version.split(".")[:2]) < SHARDING_SINCE:
        raise Unsupported(f"sharding {arguments.sharding} needs torch 2.6 or later, but torch {version} is installed")


def _with_resumed_values(arguments: Arguments, device_kind: str, resumed: tuple[Path, Progress] | None) -> Arguments:
    """Return the arguments with the checkpoint's values of `auto`, which this machine might choose differently."""
    before = resumed[1].identity if resumed else {}
    fields = RESUMED_VALUES.get(device_kind, {})
    names = [name for name in fields if getattr(arguments, name) == "auto" and before.get(name) in fields[name]]
    return replace(arguments, **{name: before[name] for name in names})

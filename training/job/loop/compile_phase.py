"""Before the first step, compile everything that a training will run, so that no step includes a compilation.

Compiled programs travel between jobs through S3. `torch.compiler` packs what was compiled into one file, and fills its
cache on disk from such a file. The file's name is a hash of everything on which the programs depend, so another GPU,
version, model, shape or setting has a file of its own. torch checks each program once more before it uses it.

The file is read before the compilation and written right after it, before the first step: a job that is interrupted
later finds it. A file never fails a job. Each error becomes a note in the log, and the job compiles as without a file.
"""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urlparse

import numpy as np
import torch
import transformers

from training.job.data import SEGMENTS, TARGET_IDS, TEXT_LENGTHS
from training.job.data.channels import Row
from training.job.data.padding import Collator, Padding, Shape, planned_shapes, representatives
from training.job.loop.job_trainer import JobTrainer, preserve_random_states
from training.job.processes import ranks
from training.job.processes.reporting import Events
from training.job.settings.declared import CUDA_GRAPH_MODES
from training.job.settings.job_settings import Settings
from training.job.tasks import Task

RUNS_WITH_CUDA_GRAPHS = 3
"""torch.compile runs a program once without a graph and records the graph in the second run. The third only replays it
(torch/_inductor/cudagraph_trees.py)."""


def is_dynamic(settings: Settings, shapes: Sequence[Shape]) -> bool:
    """Return True if one program should serve all lengths.

    The argument `compile_dynamic` decides if it is set. Otherwise one program serves all if the padding allows any
    length, and on a CPU as soon as there are several lengths: there, programs with symbolic lengths run as fast as
    those with fixed lengths, and are compiled only once.
    """
    if settings.arguments.compile_dynamic is not None:
        return settings.arguments.compile_dynamic
    lengths = {shape.length for shape in shapes}
    return not settings.padding.is_static or (settings.device_kind == "cpu" and len(lengths) > 1)


def compile_planned(trainer: JobTrainer, events: Events) -> None:
    """Compile all shapes of the training, or load their programs, before the first step."""
    settings, batch_size = trainer.settings, trainer.settings.arguments.batch_size
    orders = (trainer.sampler.order(epoch) for epoch in range(int(trainer.state.num_train_epochs)))
    max_batches = trainer.state.max_steps * settings.arguments.gradient_accumulation_steps * settings.processes
    shapes = planned_shapes(orders, settings.train.rows.lengths, batch_size, max_batches, settings.padding)
    dynamic = is_dynamic(settings, shapes)
    events.emit("note", message=f"{settings.compiler.prepare(trainer.model, dynamic)}; {len(shapes)} shapes planned")
    arguments = {**asdict(settings.arguments), "attention": settings.attention}
    setting = setting_of(trainer.model, shapes, dynamic, arguments, settings.precision)
    stored = open_stored_programs(setting, events)
    with trainer.meter.phase("compile"):
        if stored:
            stored.load()
        compile_shapes(trainer, trainer.model_wrapped, shapes, dynamic)
        if stored:
            stored.save(settings.compiler.cache_state())
    settings.compiler.mark_warm()


def compile_shapes(
    trainer: JobTrainer, model: transformers.PreTrainedModel, shapes: Sequence[Shape], dynamic: bool
) -> None:
    """Run one or more steps, through the trainer, for each shape that needs a separate program.

    `model` is the trainer's model, with or without the wrapper for several processes. Gradients are cleared and random
    states restored, so the training itself does not change.
    """
    settings, task = trainer.settings, trainer.settings.task
    steps = steps_per_shape(settings.device_kind, settings.arguments.compile_mode)
    # Largest first: if the memory is too small, this fails immediately. Each length has its own CUDA graphs.
    chosen = representatives(shapes) if dynamic and steps == 1 else shapes[::-1]
    # Trainer's loop sets this before every step, but the first step has not begun.
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    metadata = settings.train.metadata
    if dynamic:  # a length of targets that equals the length of texts by chance would be compiled as the same symbol
        metadata = replace(metadata, options={})
    with preserve_random_states():
        for shape in chosen:
            collator = Collator(Padding("max_length", shape.length), metadata, task.targets)
            batch = collator(synthetic_rows(shape, task, settings.train.rows[0]))
            for _ in range(steps):
                trainer.training_step(model, {name: tensor.to(trainer.args.device) for name, tensor in batch.items()})
                model.zero_grad()


def steps_per_shape(device_kind: str, compile_mode: str) -> int:
    """Return how many steps a shape needs until nothing more is compiled or recorded. Only a GPU has CUDA graphs."""
    return RUNS_WITH_CUDA_GRAPHS if device_kind == "cuda" and compile_mode in CUDA_GRAPH_MODES else 1


def synthetic_rows(shape: Shape, task: Task, like: Row) -> list[Row]:
    """Return rows that form a batch of this shape, with the columns and the number of texts of the row `like`.

    Their content does not matter. In a masked shape, the last row is one token shorter than the others.
    """
    rows = []
    for at in range(shape.rows):
        tokens = np.zeros(shape.length - int(shape.is_masked and at == shape.rows - 1), dtype=np.int64)
        row: Row = {"input_ids": tokens, **dict.fromkeys((*task.integer_columns, *task.number_columns), 0)}
        row.update(dict.fromkeys(task.list_columns, tokens))
        if SEGMENTS in row:
            row[SEGMENTS] = np.array([len(tokens)])
        if TARGET_IDS in like:
            row[TARGET_IDS] = np.zeros(2 if shape.length != 2 else 3, dtype=np.int64)
        if TEXT_LENGTHS in like:
            lengths = np.full(len(like[TEXT_LENGTHS]), len(tokens))
            row.update({name: like[name] for name in (*task.list_columns, *task.number_columns)})
            row.update({"input_ids": np.zeros(lengths.sum(), dtype=np.int64), TEXT_LENGTHS: lengths})
        rows.append({**row, "token_type_ids": tokens} if "token_type_ids" in like else row)
    return rows


URI_VARIABLE = "TRAINFARE_COMPILED_URI"
"""Environment variable that holds the S3 prefix of the files. The launcher sets it, with a hash of the image in it."""
KMS_VARIABLE = "TRAINFARE_COMPILED_KMS_KEY"
"""Environment variable that holds the KMS key that encrypts the files, if one is set."""
ARGUMENTS = (
    *("padding", "attention", "gradient_accumulation_steps", "optimizer", "kernels", "sharding"),
    *("compile_scope", "compile_mode"),
)
"""Arguments that change a program."""
CONNECT_SECONDS, READ_SECONDS = 5, 60
"""Limits on a call."""


class StoredPrograms:
    """The file of one setting and process."""

    def __init__(self, uri: str, kms_key: str, events: Events) -> None:
        self._uri, self._kms_key, self._events = uri, kms_key, events

    def load(self) -> None:
        """Fill torch's cache on disk from the file, if it exists."""
        with self._noting("the stored compiled programs cannot be loaded") as note:
            content = _read(self._uri)
            if content is None:
                note(f"no compiled programs are stored for this setting yet ({self._uri})")
            elif torch.compiler.load_cache_artifacts(content) is None:
                note(f"torch {torch.__version__} cannot read the stored compiled programs: {self._uri}")
            else:
                note(f"loaded compiled programs of an earlier job, {_size(content)}: {self._uri}")

    def save(self, cache_state: str) -> None:
        """Write the file, unless every program came from it."""
        if cache_state == "warm" or not ranks.on_first_host():
            return
        with self._noting("the compiled programs cannot be stored") as note:
            saved = torch.compiler.save_cache_artifacts()
            if saved:
                _write(self._uri, saved[0], self._kms_key)
                note(f"stored the compiled programs for later jobs, {_size(saved[0])}: {self._uri}")
            else:
                note("torch has no compiled programs to store")

    @contextmanager
    def _noting(self, problem: str) -> Iterator[Callable[[str], None]]:
        """Give the function that writes a note to the log. An error becomes a note that begins with `problem`."""

        def note(message: str) -> None:
            self._events.emit("note", message=message)

        try:
            yield note
        except Exception as error:
            note(f"{problem}: {type(error).__name__}: {error}".splitlines()[0])


def _size(content: bytes) -> str:
    return f"{len(content) / 2**20:.1f} MiB"


def open_stored_programs(
    setting: Mapping[str, object], events: Events, environment: Mapping[str, str] = os.environ
) -> StoredPrograms | None:
    """Return the file of a setting, or None if the job stores no programs or torch cannot pack them."""
    prefix = environment.get(URI_VARIABLE)
    if not prefix:
        return None
    if not hasattr(torch.compiler, "save_cache_artifacts"):
        events.emit(
            "note", message=f"torch {torch.__version__} cannot store compiled programs; torch 2.7 and later can"
        )
        return None
    return StoredPrograms(f"{prefix}/{key_of(setting)}", environment.get(KMS_VARIABLE, ""), events)


def key_of(setting: Mapping[str, object]) -> str:
    """Return the hash of a setting and of this process's device and libraries."""
    text = json.dumps({**setting, **_runtime()}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def setting_of(
    model: transformers.PreTrainedModel,
    shapes: Sequence[Shape],
    dynamic: bool,
    arguments: Mapping[str, object],
    precision: str,
) -> dict[str, object]:
    """Return everything in a training's setting on which its programs depend: model, shapes and options.

    Programs with symbolic lengths serve all lengths, so the planned lengths do not count: they differ between seeds.
    """
    configuration = model.config.to_dict()
    configuration.pop("_name_or_path", None)
    planned = {(shape.rows, None if dynamic else shape.length, shape.is_masked) for shape in shapes}
    return {
        "model": [type(model).__name__, configuration],
        "shapes": sorted(planned, key=str),
        "dynamic": dynamic,
        "precision": precision,
        **{name: arguments[name] for name in ARGUMENTS},
        **({"adapter": arguments["adapter"]} if arguments.get("adapter") else {}),
    }


def _runtime() -> dict[str, object]:
    """Return the device and the libraries. Each process of a host has its own device, whose index programs contain."""
    versions = {"python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda}
    versions["transformers"] = transformers.__version__
    device: list[object] = [platform.machine(), torch.backends.cpu.get_cpu_capability()]
    if torch.cuda.is_available():
        device = [torch.cuda.get_device_name(), torch.cuda.get_device_capability()]
    return {"versions": versions, "device": device, "processes": ranks.count(), "local_rank": ranks.local_rank()}


def _read(uri: str) -> bytes | None:
    """Return the content of an object, or None if it does not exist."""
    place, client = urlparse(uri), s3_client()
    try:
        body = client.get_object(Bucket=place.netloc, Key=place.path.lstrip("/"))["Body"]
    except client.exceptions.NoSuchKey:
        return None
    return bytes(body.read())


def _write(uri: str, content: bytes, kms_key: str) -> None:
    place = urlparse(uri)
    encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key} if kms_key else {}
    s3_client().put_object(Bucket=place.netloc, Key=place.path.lstrip("/"), Body=content, **encryption)


def s3_client() -> Any:
    """Return a client of S3 that gives up soon: a job in a network without a way to S3 must not wait for long."""
    # Imported here because only jobs with stored programs need it, and it takes time.
    import boto3
    from botocore.config import Config

    limits = Config(connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS, retries={"max_attempts": 1})
    return boto3.client("s3", region_name=os.environ.get("AWS_REGION"), config=limits)

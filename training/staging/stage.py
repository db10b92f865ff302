"""Stage data once per key. Staging is atomic, and safe for concurrent processes.

Layout: `<home>/staged/<key>/{train,validation}/{data.parquet,channel.json}`, `model/` if the model is built from
scratch, and `staged.json`. A large channel has `data-00000.parquet` and more shards in place of `data.parquet`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from training.staging.models.starting_model import StartingModel, find_starting_model
from training.staging.rows.labels import check_rows
from training.staging.rows.selection import Channel
from training.staging.sources.progress import Progress
from training.staging.sources.request import StagingRequest
from training.staging.sources.sources import Source, find_source
from training.staging.tasks import TASKS
from training.staging.tokens.channels import ChannelSummary, ChannelWriter, Content
from training.staging.tokens.description import DataDescription
from training.staging.tokens.lengths import choose_buckets, length_statistics, with_max_length
from training.staging.tokens.staged import (
    CHANNELS,
    MODEL,
    Manifest,
    Staged,
    read_manifest,
    write_manifest,
)
from training.state.folders import UNFINISHED_PREFIX, is_usable, new_folder

STAGING_VERSION = 4
"""Version of the staged data. Increase it whenever the same request gives different data."""

UNFINISHED_SECONDS = 86_400.0
"""Age at which an unfinished staging counts as left by a killed process."""


def stage(
    request: StagingRequest,
    home: Path,
    echo: Callable[[str], None] = lambda _: None,
    progress: Progress | None = None,
) -> Staged:
    """Return the staged data of a request. An earlier staging in `home` is reused.

    If its files differ from their digest, `echo` reports it, and the data is staged again. `progress` is kept up to
    date meanwhile.

    Raises InputError for any error in the data or the model, and then leaves no files behind.
    """
    progress = progress or Progress()
    progress.begin("looking for the model and the data")
    model = find_starting_model(request, home)
    task = TASKS[request.task]
    columns = task.required_columns(request.data.columns)
    source = find_source(request.data, columns, home / "docstrings", request.account)
    key = staging_key(request, source, model)
    folder = home.absolute() / "staged" / key
    manifest = read_manifest(folder) if is_usable(folder, echo) else None
    cached = manifest is not None
    if manifest is None:
        with closing(source):
            manifest = _write(source, request, model, folder, progress)
    check_rows(manifest.train_rows, request, source.description)
    return _staged(key, folder, manifest, request, source, model, cached)


def staging_key(request: StagingRequest, source: Source, model: StartingModel) -> str:
    """Return the hash of everything that determines the channels. It includes the content of files, not their names."""
    data = request.data
    material = {
        "version": STAGING_VERSION,
        "tokenizers": importlib.metadata.version("tokenizers"),
        "task": request.task,
        "data": source.digest,
        "columns": data.columns.model_dump(),
        "labels": data.labels,
        # Pairs, because the order of the classes matters and `sort_keys` would change it.
        "label_map": list(data.label_map.items()) if data.label_map else None,
        "skip_labels": data.skip_labels,
        "rows": [data.train_rows, data.validation_rows],
        "split": _split(request),
        "tokenizer": model.tokenizer.tokenizer_identity(),
        "scratch": model.scratch and model.scratch.identity(),
        "max_length": request.max_length,
        "options": {name: getattr(request, name) for name in TASKS[request.task].OPTIONS},
    }
    return hashlib.sha256(json.dumps(material, sort_keys=True).encode()).hexdigest()[:32]


def evaluation_key(request: StagingRequest, source: Source, model: StartingModel) -> str:
    """Return the hash of everything that identifies the validation rows and the task.

    Models with equal keys can be compared even if their training rows and tokenizers differ. For causal language
    modelling the key includes the tokenizer, because each token is a prediction.
    """
    data = request.data
    predicts_tokens = request.task == "causal-lm"
    material = {
        "task": request.task,
        "data": source.validation_digest,
        "columns": data.columns.model_dump(),
        "labels": data.labels,
        "label_map": list(data.label_map.items()) if data.label_map else None,
        "skip_labels": data.skip_labels,
        "rows": data.validation_rows,
        # The limit on training rows determines which rows are split.
        "split": [*split, data.train_rows] if (split := _split(request)) and data.train_rows else split,
        "tokens": (
            [model.tokenizer.tokenizer_identity(), request.max_length, request.packing] if predicts_tokens else None
        ),
    }
    return hashlib.sha256(json.dumps(material, sort_keys=True).encode()).hexdigest()[:32]


def _split(request: StagingRequest) -> list[Any] | None:
    """Return everything that determines which rows are validation rows, except the limits; None without a split.

    With a limit on training rows, earlier versions split all rows, not the first ones.
    """
    data = request.data
    if not validation_is_split_off(request):
        return None
    return [data.validation_share, data.split_seed, *([] if data.train_rows is None else ["first rows"])]


def validation_is_split_off(request: StagingRequest) -> bool:
    """Return whether the validation rows are split off the training rows."""
    data = request.data
    return data.hub.splits.validation is None if data.hub is not None else data.validation is None


def _write(source: Source, request: StagingRequest, model: StartingModel, folder: Path, progress: Progress) -> Manifest:
    """Create both channels and write them atomically."""
    from training.staging.tokens.tokenizing import channel_metadata, load_tokenizer

    task, scratch = TASKS[request.task], model.scratch
    config = scratch.configuration(request.max_length) if scratch else None
    content = task.content(source.open, request, progress)
    progress.begin("loading the tokenizer")
    tokenizer = load_tokenizer(model.tokenizer, None if scratch else request.max_length)
    metadata = channel_metadata(
        tokenizer, task=request.task, label_names=content.label_names, max_length=request.max_length
    )
    _delete_abandoned(folder.parent)
    with _without_empty_folders(folder.parent), new_folder(folder, _is_complete) as unfinished:
        train, validation = (
            _write_channel(channel, unfinished / channel, content, request, tokenizer, metadata) for channel in CHANNELS
        )
        check_rows(train.rows, request, content.source)
        progress.begin("completing")
        if scratch:
            scratch.write(config, tokenizer, task.HEAD, unfinished / MODEL)
        manifest = _manifest(request, content.label_names, train, validation)
        write_manifest(unfinished, manifest)
    return manifest


def _write_channel(
    channel: Channel,
    folder: Path,
    content: Content,
    request: StagingRequest,
    tokenizer: Any,
    metadata: Mapping[str, Any],
) -> ChannelSummary:
    writer = ChannelWriter(folder)
    summary = ChannelSummary(max_length=request.max_length, classes=len(content.label_names))
    writer.close({**metadata, **content.write(channel, tokenizer, writer, summary)})
    return summary


def _manifest(
    request: StagingRequest, label_names: tuple[str, ...], train: ChannelSummary, validation: ChannelSummary
) -> Manifest:
    length_counts = train.length_counts
    return Manifest(
        task=request.task,
        max_length=request.max_length,
        train_rows=train.rows,
        validation_rows=validation.rows,
        label_names=label_names,
        train_class_counts=train.class_counts,
        validation_class_counts=validation.class_counts,
        length_counts=tuple(length_counts.items()),
        has_model=request.weights == "random",
        longest_tokens=max([*length_counts, *validation.length_counts]),
        description=DataDescription(
            task=request.task,
            max_length=request.max_length,
            label_names=label_names,
            train=train.description(),
            validation=validation.description(),
            repeated_rows=validation.texts.rows_in(train.texts),
            repeated_rows_are_estimated=validation.texts.halvings > 0,
            samples=train.samples(),
        ),
    )


def _is_complete(folder: Path) -> bool:
    return read_manifest(folder) is not None


@contextmanager
def _without_empty_folders(folder: Path) -> Iterator[None]:
    """After an error, delete the folder and its parents if they did not exist before and are empty."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for each in missing:
                each.rmdir()
        raise


def _delete_abandoned(parent: Path) -> None:
    """Delete the unfinished stagings of processes that were killed long ago."""
    for abandoned in parent.glob(f"{UNFINISHED_PREFIX}*"):
        with suppress(FileNotFoundError):  # another process has just completed it
            if time.time() - abandoned.stat().st_mtime > UNFINISHED_SECONDS:
                shutil.rmtree(abandoned, ignore_errors=True)


def _staged(
    key: str,
    folder: Path,
    manifest: Manifest,
    request: StagingRequest,
    source: Source,
    model: StartingModel,
    cached: bool,
) -> Staged:
    # Validation rows use the same buckets, so the last bucket must hold the longest row of both channels.
    lengths = dict(manifest.length_counts)
    return Staged(
        key=key,
        channels=channel_folders(folder, model),
        train_rows=manifest.train_rows,
        validation_rows=manifest.validation_rows,
        label_names=manifest.label_names,
        train_class_counts=manifest.train_class_counts,
        validation_class_counts=manifest.validation_class_counts,
        bucket_lengths=buckets(lengths, manifest.longest_tokens, request),
        lengths=length_statistics(lengths, manifest.max_length),
        source=source.description,
        digest=source.digest,
        evaluation_key=evaluation_key(request, source, model),
        cached=cached,
        description=manifest.description,
    )


def channel_folders(folder: Path, model: StartingModel) -> dict[str, str]:
    """Return the `file://` URI of each channel of a staging in this folder."""
    channels: dict[str, str] = {name: (folder / name).as_uri() for name in CHANNELS}
    if (model_folder := folder / MODEL if model.scratch else model.tokenizer.folder) is not None:
        channels[MODEL] = model_folder.as_uri()
    return channels


def buckets(length_counts: Mapping[int, int], longest_tokens: int, request: StagingRequest) -> tuple[int, ...]:
    """Return the bucket lengths, as requested or chosen for these lengths. The last one holds `longest_tokens`."""
    if request.bucket_lengths is not None:
        return with_max_length(request.bucket_lengths, max_length=request.max_length)
    return choose_buckets({longest_tokens: 1, **length_counts}, max_length=request.max_length)

"""Stage data once per key. Staging is atomic, and safe for concurrent processes.

Layout: `<home>/staged/<key>/{train,validation}/{data.parquet,channel.json}`, `model/` if the model is built from
scratch, and `staged.json`. A large channel has `data-00000.parquet` and more shards in place of `data.parquet`.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from state.digests import key_of
from state.folders import UNFINISHED_PREFIX, is_usable, new_folder
from training.job.tasks import TASKS
from training.staging.models.starting_model import StartingModel, find_starting_model
from training.staging.rows.labels import check_classes, check_rows
from training.staging.rows.selection import select
from training.staging.sources.progress import Progress
from training.staging.sources.request import StagingRequest
from training.staging.sources.sources import Source, find_source
from training.staging.tokens.channels import ChannelSummary, ChannelWriter
from training.staging.tokens.staged import (
    CHANNELS,
    MODEL,
    DataDescription,
    Manifest,
    Rows,
    Staged,
    choose_buckets,
    length_statistics,
    read_manifest,
    with_max_length,
    write_manifest,
)

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
    inputs = find_inputs(request, home)
    manifest = read_manifest(inputs.folder) if is_usable(inputs.folder, echo) else None
    cached = manifest is not None
    if manifest is None:
        with closing(inputs.source):
            manifest = _write(inputs, progress)
    check_rows(manifest.train_rows, request, inputs.source.description)
    rows = {each.name: getattr(manifest, each.name) for each in fields(Rows)}
    # Validation rows use the same buckets, so the last bucket must hold the longest row of both channels.
    return inputs.staged(dict(manifest.length_counts), manifest.longest_tokens, cached=cached, **rows)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Model and data of a request, and the place of their staging."""

    request: StagingRequest
    model: StartingModel
    source: Source
    key: str
    """Hash of everything that determines the channels."""
    folder: Path
    """Folder of the staging, which may not exist yet."""

    def staged(self, length_counts: Mapping[int, int], longest_tokens: int, *, cached: bool, **rows: Any) -> Staged:
        """Return the staged data with these rows. The last bucket holds `longest_tokens`."""
        request, source, model = self.request, self.source, self.model
        described = rows.get("description")
        evaluated = evaluation_key(request, source, model, is_cut=bool(described and described.validation.cut_rows))
        channels: dict[str, str] = {name: (self.folder / name).as_uri() for name in CHANNELS}
        if (model_folder := self.folder / MODEL if model.scratch else model.tokenizer.folder) is not None:
            channels[MODEL] = model_folder.as_uri()
        if request.bucket_lengths is not None:
            buckets = with_max_length(request.bucket_lengths, max_length=request.max_length)
        else:
            buckets = choose_buckets({longest_tokens: 1, **length_counts}, max_length=request.max_length)
        return Staged(
            key=self.key,
            channels=channels,
            bucket_lengths=buckets,
            lengths=length_statistics(length_counts, request.max_length),
            source=source.description,
            digest=source.digest,
            evaluation_key=evaluated,
            rows_key=key_of([source.digest, request.data.train_rows, evaluated]),
            cached=cached,
            **rows,
        )


def find_inputs(request: StagingRequest, home: Path) -> Inputs:
    """Find the model and the data. Raises InputError."""
    model = find_starting_model(request, home)
    columns = list(TASKS[request.task].columns(request.data.columns))
    source = find_source(request.data, columns, home / "docstrings", request.account)
    key = staging_key(request, source, model)
    return Inputs(request=request, model=model, source=source, key=key, folder=home.absolute() / "staged" / key)


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
        "options": request.options,
    }
    # Earlier versions packed or truncated the texts that evaluate a language model.
    return key_of({**material, **({"evaluation": "whole texts"} if TASKS[request.task].predicts_tokens else {})})


def evaluation_key(request: StagingRequest, source: Source, model: StartingModel, *, is_cut: bool) -> str:
    """Return the hash of everything that identifies the validation rows and the task.

    Models with equal keys can be compared even if their training rows and tokenizers differ. For a language model the
    key includes the tokenizer, because each token is a prediction, and `max_length` if it divided a text (`is_cut`).
    """
    data = request.data
    predicts_tokens = TASKS[request.task].predicts_tokens
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
            [model.tokenizer.tokenizer_identity(), request.max_length if is_cut else None, "whole texts"]
            if predicts_tokens
            else None
        ),
    }
    return key_of(material)


def _split(request: StagingRequest) -> list[Any] | None:
    """Return everything that determines which rows are validation rows, except the limits; None without a split.

    With a limit on training rows, earlier versions split all rows, not the first ones.
    """
    data = request.data
    if data.validation is not None or (data.hub is not None and data.hub.splits.validation is not None):
        return None
    return [data.validation_share, data.split_seed, *([] if data.train_rows is None else ["first rows"])]


def _write(inputs: Inputs, progress: Progress) -> Manifest:
    """Create both channels and write them atomically."""
    from training.staging.tokens.encoding import write_channel
    from training.staging.tokens.tokenizing import channel_metadata, load_tokenizer

    request, scratch = inputs.request, inputs.model.scratch
    config = scratch.configuration(request.max_length) if scratch else None
    selection = select(inputs.source.open, request, progress)
    names = selection.classes.names
    progress.begin("loading the tokenizer")
    tokenizer = load_tokenizer(inputs.model.tokenizer, None if scratch else request.max_length)
    metadata = channel_metadata(tokenizer, task=request.task, label_names=names, max_length=request.max_length)
    for abandoned in inputs.folder.parent.glob(f"{UNFINISHED_PREFIX}*"):
        with suppress(FileNotFoundError):  # another process has just completed it
            if time.time() - abandoned.stat().st_mtime > UNFINISHED_SECONDS:
                shutil.rmtree(abandoned, ignore_errors=True)
    with new_folder(inputs.folder, lambda path: read_manifest(path) is not None) as unfinished:
        summaries = []
        for channel in CHANNELS:
            writer = ChannelWriter(unfinished / channel)
            summary = ChannelSummary(max_length=request.max_length, classes=len(names))
            more = write_channel(selection, channel, request, tokenizer, writer, summary, progress)
            writer.close({**metadata, **more})
            if names and channel == "train":  # A limit may leave out all rows of a class that was read.
                present = {number for number, count in enumerate(summary.class_counts) if count}
                check_classes(selection.source, present, selection.classes)
            summaries.append(summary)
        train, validation = summaries
        check_rows(train.rows, request, selection.source)
        progress.begin("completing")
        if scratch:
            scratch.write(config, tokenizer, TASKS[request.task].head, unfinished / MODEL)
        manifest = Manifest(
            task=request.task,
            max_length=request.max_length,
            train_rows=train.rows,
            validation_rows=validation.rows,
            label_names=names,
            train_class_counts=train.class_counts,
            validation_class_counts=validation.class_counts,
            length_counts=tuple(train.length_counts.items()),
            has_model=request.weights == "random",
            longest_tokens=max([*train.length_counts, *validation.length_counts]),
            description=DataDescription(
                task=request.task,
                max_length=request.max_length,
                label_names=names,
                train=train.description(),
                validation=validation.description(),
                repeated_rows=validation.rows_in(train),
                samples=train.samples(),
            ),
        )
        write_manifest(unfinished, manifest)
    return manifest

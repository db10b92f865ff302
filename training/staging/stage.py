"""Stage data once per key, or estimate the staged data of a large source from its first rows.

Staging is atomic, and safe for concurrent processes. Layout: `<home>/staged/<key>/{train,validation}/{data.parquet,
channel.json}`, `model/` if the model is built from scratch, and `staged.json`.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from state.digests import key_of
from state.folders import is_usable, new_folder
from training.contract.errors import InputError
from training.job.tasks import TASKS
from training.staging.formats.files import Row, TextFormat, is_packed, read_start
from training.staging.formats.readers import reader_name
from training.staging.models.starting_model import StartingModel, check_hub_lengths, find_starting_model
from training.staging.sources.data_files import LINES, DataFiles, Start, StoredFiles, text_bytes
from training.staging.sources.progress import Progress
from training.staging.sources.request import Data, StagingRequest
from training.staging.sources.sources import (
    Source,
    Table,
    Tables,
    file_table,
    find_source,
    is_offline,
    tables_of,
)
from training.staging.tokens.channels import ChannelSummary, row_lengths, write_channel
from training.staging.tokens.rows import check_classes, check_rows, first_rows, select, validation_count
from training.staging.tokens.staged import (
    CHANNELS,
    METADATA,
    MODEL,
    ChannelDescription,
    DataDescription,
    Manifest,
    Staged,
    choose_buckets,
    length_statistics,
    read_manifest,
    with_max_length,
    write_manifest,
)
from training.staging.tokens.tokenizing import load_tokenizer, pad_token_id

Echo = Callable[[str], None]
STAGING_VERSION = 5
"""Version of the staged data. Increase it whenever the same request gives different data."""


def stage(
    request: StagingRequest,
    home: Path,
    echo: Echo = lambda _: None,
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
    check_rows(manifest.description.train.rows, request, inputs.source.description)
    # Validation rows use the same buckets, so the last bucket must hold the longest row of both channels.
    return inputs.staged(manifest.description, dict(manifest.length_counts), manifest.longest_tokens, cached=cached)


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

    def staged(
        self, description: DataDescription, length_counts: Mapping[int, int], longest_tokens: int, *, cached: bool
    ) -> Staged:
        """Return the staged data with this description. The last bucket holds `longest_tokens`."""
        request, source, model = self.request, self.source, self.model
        evaluated = evaluation_key(request, source, model, is_cut=bool(description.validation.cut_rows))
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
            source=source.description,
            digest=source.digest,
            evaluation_key=evaluated,
            rows_key=key_of([source.digest, request.data.train_rows, evaluated]),
            description=description,
            cached=cached,
        )


def find_inputs(request: StagingRequest, home: Path) -> Inputs:
    """Find the model and the data. Raises InputError."""
    model = find_starting_model(request, home)
    task, names = TASKS[request.task], request.data.columns
    source = find_source(request.data, list(task.columns(names)), home / "docstrings", request.account)
    key = staging_key(request, source, model)
    return Inputs(request=request, model=model, source=source, key=key, folder=home.absolute() / "staged" / key)


def staging_key(request: StagingRequest, source: Source, model: StartingModel) -> str:
    """Return the hash of everything that determines the channels. It includes the content of files, not their names."""
    data = request.data
    material = {
        **_rows_material(request),
        "version": STAGING_VERSION,
        "tokenizers": importlib.metadata.version("tokenizers"),
        "data": source.digest,
        "rows": [data.train_rows, data.validation_rows],
        "split": _split(request),
        "tokenizer": model.tokenizer.tokenizer_identity(),
        "scratch": model.scratch and model.scratch.identity(),
        "max_length": request.max_length,
        "options": request.options,
    }
    return key_of(material)


def evaluation_key(request: StagingRequest, source: Source, model: StartingModel, *, is_cut: bool) -> str:
    """Return the hash of everything that identifies the validation rows and the task.

    Models with equal keys can be compared even if their training rows and tokenizers differ. For a language model the
    key includes the tokenizer, because each token is a prediction, and `max_length` if it divided a text (`is_cut`).
    """
    data = request.data
    predicts_tokens = TASKS[request.task].predicts_tokens
    material = {
        **_rows_material(request),
        "data": source.validation_digest,
        "rows": data.validation_rows,
        # The limit on training rows determines which rows are split.
        "split": [*split, data.train_rows] if (split := _split(request)) and data.train_rows else split,
        "tokens": (
            [model.tokenizer.tokenizer_identity(), request.max_length if is_cut else None, "whole texts"]
            if predicts_tokens
            else None
        ),
    }
    if options := {name: request.options[name] for name in TASKS[request.task].evaluated_options}:
        material["options"] = options
    return key_of(material)


def _rows_material(request: StagingRequest) -> dict[str, Any]:
    """Return everything of a request that determines how a row is read."""
    data = request.data
    return {
        "task": request.task,
        "columns": data.columns.model_dump(),
        "labels": data.labels,
        # Pairs, because the order of the classes matters and `sort_keys` would change it.
        "label_map": list(data.label_map.items()) if data.label_map else None,
        "skip_labels": data.skip_labels,
        "skip_bad_rows": data.skip_bad_rows,
    }


def _split(request: StagingRequest) -> list[Any] | None:
    """Return everything that determines which rows are validation rows, except the limits; None without a split."""
    data = request.data
    if data.validation is not None or (data.hub is not None and data.hub.splits.validation is not None):
        return None
    return [data.validation_share, data.split_seed]


def _tokenizer(model: StartingModel, request: StagingRequest) -> Any:
    """Return the tokenizer. Raises InputError if the model cannot read `max_length` tokens."""
    tokenizer = load_tokenizer(model.tokenizer, None if model.scratch else request.max_length)
    check_hub_lengths(model, request)
    return tokenizer


def _write(inputs: Inputs, progress: Progress) -> Manifest:
    """Create both channels and write them atomically."""
    request, scratch = inputs.request, inputs.model.scratch
    config = scratch.configuration(request) if scratch else None
    selection = select(inputs.source.open, request, progress)
    names = selection.classes.names
    progress.begin("loading the tokenizer")
    tokenizer = _tokenizer(inputs.model, request)
    metadata = {
        "task": request.task,
        "label_names": list(names),
        "max_length": request.max_length,
        "pad_token_id": pad_token_id(tokenizer),
        "pad_token_type_id": tokenizer.pad_token_type_id,
        "padding_side": tokenizer.padding_side,
    }
    with new_folder(inputs.folder, lambda path: read_manifest(path) is not None) as unfinished:
        summaries = []
        for channel in CHANNELS:
            summary = ChannelSummary(max_length=request.max_length, classes=len(names))
            more = write_channel(selection, channel, request, tokenizer, unfinished / channel, summary, progress)
            text = json.dumps({**metadata, **more, "rows": summary.rows}, indent=1, ensure_ascii=False)
            (unfinished / channel / METADATA).write_text(text, "utf-8")
            if names and channel == "train":  # A limit may leave out all rows of a class that was read.
                present = {number for number, count in enumerate(summary.class_counts) if count}
                check_classes(selection.source, present, selection.classes)
            summaries.append(summary)
        train, validation = summaries
        check_rows(train.rows, request, selection.source)
        progress.begin("completing")
        if scratch:
            scratch.write(config, tokenizer, TASKS[request.task].head, unfinished / MODEL)
        description = DataDescription(
            task=request.task,
            max_length=request.max_length,
            label_names=names,
            train=train.description(),
            validation=validation.description(),
            repeated_rows=validation.rows_in(train),
            skipped_rows=selection.skipped_rows,
            contradictory_texts=selection.contradictory_texts,
            samples=train.samples(),
        )
        manifest = Manifest(
            description=description,
            length_counts=tuple(train.length_counts.items()),
            longest_tokens=max([*train.length_counts, *validation.length_counts]),
            has_model=request.weights == "random",
        )
        write_manifest(unfinished, manifest)
    return manifest


SMALL_BYTES = 4 * 2**20
"""Size of data that is staged faster than a sample of it is worth."""
SAMPLE_ROWS = 1_000
"""Rows that are read and tokenised. The mean length of 1,000 rows is known to a few percent."""
_Sample = tuple[int, list[int], int]
"""Rows that were read, tokens of each training row that they make, and number of validation rows that they make."""


def stage_or_estimate(request: StagingRequest, home: Path, echo: Echo, progress: Progress | None = None) -> Staged:
    """Return the staged data of a request, staged in `home` if it is small, or else an estimate from its first rows.

    Raises InputError for the errors of the data that these rows show.
    """
    progress = progress or Progress()
    progress.begin("looking for the model and the data")
    inputs = find_inputs(request, home)
    model, source = inputs.model, inputs.source
    if read_manifest(inputs.folder) is not None or _is_small(request.data, source):
        return stage(request, home, echo, progress)
    progress.begin("reading the first rows")
    tokenizer = _tokenizer(model, request)
    with closing(source):
        (sample_rows, lengths, _), (train, validation) = _sample_and_rows(source, request, tokenizer, echo)
    check_rows(train, request, source.description)
    length_counts = dict(sorted(Counter(lengths).items()))
    description = DataDescription(
        task=None,
        max_length=None,
        label_names=(),
        train=ChannelDescription(rows=train, lengths=length_statistics(length_counts, request.max_length)),
        validation=ChannelDescription(rows=validation),
    )
    # Rows that are longer than the sample are likely, and the last bucket must hold them.
    staged = inputs.staged(description, length_counts, request.max_length, cached=False)
    return replace(staged, sample_rows=sample_rows)


def _sample_and_rows(
    source: Source, request: StagingRequest, tokenizer: Any, echo: Echo
) -> tuple[_Sample, tuple[int, int]]:
    data = request.data
    columns = list(TASKS[request.task].columns(data.columns))
    starts = [_start(each, data.text_format, echo) for each in source.files]
    parts = zip(source.files, starts, strict=True)
    read = [file_table(files, columns, data, start.files) for files, start in parts]
    tables = tables_of(read) if read else source.open()
    sample = _sampled(tables.train, request, tokenizer, is_cut=any(start.is_cut for start in starts[:1]))
    return sample, _channel_rows(tables, starts, sample, request)


def _start(files: DataFiles | StoredFiles, text: TextFormat, echo: Echo) -> Start:
    """Return files whose first rows are to be read. `echo` reports objects that must be copied as a whole."""
    if isinstance(files, DataFiles):
        return Start(files=files)
    if files.can_start(text):
        return files.start()
    echo(f"The plan copies {files.described()}: their format cannot be read in part.")
    return Start(files=files.copies())


def _is_small(data: Data, source: Source) -> bool:
    """Return whether data is staged within seconds. Data of the Hub is not, unless it is in Hugging Face's cache."""
    if data.hub is not None:
        folder = Path(data.hub.name)
        if not folder.is_dir():
            return is_offline()
        return sum(text_bytes(path) for path in folder.rglob("*") if path.is_file()) <= SMALL_BYTES
    return sum(each.text_bytes for each in source.files) <= SMALL_BYTES


def _sampled(table: Table, request: StagingRequest, tokenizer: Any, *, is_cut: bool) -> _Sample:
    rows: list[Row] = []
    try:
        rows.extend(islice(table.rows, SAMPLE_ROWS))
    except InputError:  # extend keeps the rows before an error, which may be the cut
        if not rows or not is_cut:
            raise
    if rows and is_cut and isinstance(rows[-1][1], InputError):
        rows.pop()
    lengths = row_lengths(replace(table, rows=iter(rows)), request, tokenizer)
    if not lengths:
        raise InputError(f"the first {len(rows)} rows of {table.name} make no row to train on")
    if not TASKS[request.task].predicts_tokens:
        return len(rows), lengths, len(lengths)
    return len(rows), lengths, len(row_lengths(replace(table, rows=iter(rows)), request, tokenizer, for_scoring=True))


def _channel_rows(tables: Tables, starts: Sequence[Start], sample: _Sample, request: StagingRequest) -> tuple[int, int]:
    """Return the estimated rows of both channels. `tables.train` has been read up to the sample's end."""
    data = request.data
    train_start, validation_start = (*starts, None, None)[:2]
    read, lengths, scored = sample
    total = _row_count(train_start, data, tables.train, read)
    if tables.validation is not None:
        validation = _row_count(validation_start, data, tables.validation, 0)
        train = total
    else:
        needed = first_rows(data)
        total = total if needed is None else min(total, needed)
        validation = validation_count(total, data.validation_share)
        train = total - validation
    limits = ((train, data.train_rows), (validation, data.validation_rows))
    first, second = (count if limit is None else min(count, limit) for count, limit in limits)
    return max(1, round(first * len(lengths) / read)), max(1, round(second * scored / read))


def _row_count(start: Start | None, data: Data, table: Table, read: int) -> int:
    """Return the number of rows of a table, from its files' sizes where that is possible, and else by counting.

    `read` rows of `table` have been read.
    """
    if start is not None:
        counts = {path: _rows_by_size(path, data.text_format) for path in start.files.paths}
        if None not in counts.values():
            return round(sum((count or 0) * start.scales.get(path, 1.0) for path, count in counts.items()))
    return read + sum(1 for _ in table.rows)


def _rows_by_size(path: Path, text: TextFormat) -> int | None:
    """Return the number of rows in a file; None if its size does not show it."""
    kind = reader_name(path)
    if kind == ".parquet" and not is_packed(path):
        import pyarrow.parquet as pq

        return int(pq.ParquetFile(path).metadata.num_rows)
    if kind not in LINES:
        return None
    first, share = read_start(path)
    lines = sum(1 for line in first.decode(text.encoding, "replace").splitlines() if line.strip())
    return max(1, round(lines / share))

"""Stage data: once for each key, whole or not at all, safe for two at a time.

Layout: `<home>/staged/<key>/{train,validation}/{data.parquet,channel.json}` and `staged.json`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from training.errors import InputError
from training.staging.buckets import choose, completed
from training.staging.models import ModelSource, check_max_length, locate
from training.staging.prepare import Prepared, check_rows, prepare
from training.staging.request import StagingRequest
from training.staging.sources import Source, find_source
from training.staging.staged import Manifest, Staged, length_statistics, read_manifest, write_manifest

STAGING_VERSION = 1
"""Raised whenever the same request would be staged otherwise."""

UNFINISHED_PREFIX = ".unfinished-"
UNFINISHED_SECONDS = 86_400.0
"""Age at which an unfinished staging counts as left behind by a killed process."""


def stage(request: StagingRequest, home: Path) -> Staged:
    """Return the staged data of a request, from `home` where it was staged before.

    Raises `InputError` for everything that is wrong with the data or the model, and then leaves nothing behind.
    """
    model = locate(request.model, request.model_revision)
    check_max_length(model, request.max_length)
    source = find_source(request.data, home / "docstrings")
    key = staging_key(request, source, model)
    folder = home.absolute() / "staged" / key
    manifest = read_manifest(folder)
    cached = manifest is not None
    if manifest is None:
        prepared = prepare(source.open(), request)
        manifest = _write(prepared, request, model, folder)
    check_rows(sum(manifest.train_class_counts), request, source.description)
    return _staged(key, folder, manifest, request, source, model, cached)


def staging_key(request: StagingRequest, source: Source, model: ModelSource) -> str:
    """Return the hash of all that the channels depend on; file names are no part of it, their content is."""
    data = request.data
    cut = tables_are_cut(request)
    material = {
        "version": STAGING_VERSION,
        "tokenizers": importlib.metadata.version("tokenizers"),
        "task": request.task,
        "data": source.digest,
        "columns": data.columns.model_dump(),
        "labels": data.labels,
        "rows": [data.train_rows, data.validation_rows],
        "split": [data.validation_share, data.split_seed] if cut else None,
        "tokenizer": model.tokenizer_identity(),
        "max_length": request.max_length,
    }
    return hashlib.sha256(json.dumps(material, sort_keys=True).encode()).hexdigest()[:32]


def tables_are_cut(request: StagingRequest) -> bool:
    """Tell whether the validation rows are cut from the training rows."""
    data = request.data
    return data.hub.splits.validation is None if data.hub is not None else data.validation is None


def _write(prepared: Prepared, request: StagingRequest, model: ModelSource, folder: Path) -> Manifest:
    """Tokenise and write both channels under another name, then rename."""
    from training.staging.tokens import channel_facts, encode, load_tokenizer, write_channel

    tokenizer = load_tokenizer(model, request.max_length)
    facts = channel_facts(tokenizer, task=request.task, label_names=prepared.label_names, max_length=request.max_length)
    train = encode(tokenizer, prepared.train, request.max_length)
    validation = encode(tokenizer, prepared.validation, request.max_length)
    lengths = Counter(len(ids) for ids in train.input_ids)
    manifest = Manifest(
        task=request.task,
        max_length=request.max_length,
        label_names=prepared.label_names,
        train_class_counts=_class_counts(prepared.train_classes, len(prepared.label_names)),
        validation_class_counts=_class_counts(prepared.validation_classes, len(prepared.label_names)),
        length_counts=tuple(sorted(lengths.items())),
        longest_tokens=max(len(ids) for ids in [*train.input_ids, *validation.input_ids]),
    )
    with _renamed_when_whole(folder) as unfinished:
        write_channel(unfinished / "train", train, prepared.train_classes, facts)
        write_channel(unfinished / "validation", validation, prepared.validation_classes, facts)
        write_manifest(unfinished, manifest)
    return manifest


def _class_counts(classes: list[int], count: int) -> tuple[int, ...]:
    counted = Counter(classes)
    return tuple(counted[number] for number in range(count))


@contextmanager
def _renamed_when_whole(folder: Path) -> Iterator[Path]:
    """Give a folder of another name to write to; it takes its name when all is written, and goes when not."""
    unfinished = folder.parent / f"{UNFINISHED_PREFIX}{uuid.uuid4().hex}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent)
        unfinished.mkdir()
        yield unfinished
        _take_name(unfinished, folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _take_name(unfinished: Path, folder: Path) -> None:
    try:
        unfinished.rename(folder)
    except OSError:
        # Someone else staged the same just now, or left a torn one, which is replaced.
        if read_manifest(folder) is None:
            shutil.rmtree(folder, ignore_errors=True)
            unfinished.rename(folder)


def _sweep(parent: Path) -> None:
    """Remove what processes killed long ago left behind."""
    for left in parent.glob(f"{UNFINISHED_PREFIX}*"):
        if time.time() - left.stat().st_mtime > UNFINISHED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def _staged(
    key: str,
    folder: Path,
    manifest: Manifest,
    request: StagingRequest,
    source: Source,
    model: ModelSource,
    cached: bool,
) -> Staged:
    channels = {name: (folder / name).as_uri() for name in ("train", "validation")}
    if model.folder is not None:
        channels["model"] = model.folder.as_uri()
    return Staged(
        key=key,
        channels=channels,
        train_rows=sum(manifest.train_class_counts),
        validation_rows=sum(manifest.validation_class_counts),
        label_names=manifest.label_names,
        train_class_counts=manifest.train_class_counts,
        validation_class_counts=manifest.validation_class_counts,
        bucket_lengths=_buckets(manifest, request),
        lengths=length_statistics(dict(manifest.length_counts), manifest.max_length),
        source=source.description,
        digest=source.digest,
        cached=cached,
    )


def _buckets(manifest: Manifest, request: StagingRequest) -> tuple[int, ...]:
    if request.bucket_lengths is not None:
        return completed(request.bucket_lengths, max_length=request.max_length)
    # The validation rows pass through the same buckets: the longest of all must fit the last.
    lengths = dict(manifest.length_counts)
    lengths.setdefault(manifest.longest_tokens, 1)
    return choose(lengths, max_length=manifest.max_length)

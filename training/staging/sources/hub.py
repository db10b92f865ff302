"""Load data sets of the Hugging Face Hub with `datasets`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from training.contract.errors import InputError
from training.staging.formats.row import Row, missing_column
from training.staging.sources.request import HubData

LOOK_UP_SECONDS = 10.0


def resolve_revision(hub: HubData) -> str:
    """Return the current commit of the revision, or the revision itself if the Hub cannot be reached.

    The commit ensures that data which has changed on the Hub is staged again.
    """
    revision = hub.revision or "main"
    if Path(hub.name).is_dir() or is_offline():
        return revision
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return HfApi().dataset_info(hub.name, revision=revision, timeout=LOOK_UP_SECONDS).sha or revision
    except (HfHubHTTPError, OSError, ValueError):
        return revision  # A cached copy may exist. If not, loading raises an error with the reason.
    except Exception as error:  # The errors of the transport (httpx) differ between releases.
        if "connect" in type(error).__name__.lower() or "timeout" in type(error).__name__.lower():
            return revision
        raise


def is_offline() -> bool:
    """Return whether the environment forbids calls to the Hub."""
    return os.environ.get("HF_HUB_OFFLINE", "0").lower() in {"1", "true", "yes", "on"}


def load_split(hub: HubData, split: str, revision: str) -> Any:
    """Return a split as a `datasets.Dataset`. Every error becomes an `InputError`."""
    import datasets

    datasets.disable_progress_bars()
    try:
        pinned = None if Path(hub.name).is_dir() else revision
        return datasets.load_dataset(hub.name, hub.config, split=split, revision=pinned)
    # The library raises about twenty classes: no network, unknown name, no access, unknown split, broken data.
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise InputError(f"data.hub {hub.name!r}, split {split!r} cannot be loaded: {reason}") from error


def stream_split(hub: HubData, split: str, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a split as `hub_rows` does, without storing the split. Every error becomes an `InputError`."""
    import datasets

    try:
        pinned = None if Path(hub.name).is_dir() else resolve_revision(hub)
        dataset = datasets.load_dataset(hub.name, hub.config, split=split, revision=pinned, streaming=True)
        dataset = dataset if dataset.column_names else dataset._resolve_features()
        yield from hub_rows(dataset, f"{hub.name} split {split}", columns)
    except InputError:
        raise
    except Exception as error:  # as many classes as in `load_split`
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise InputError(f"data.hub {hub.name!r}, split {split!r} cannot be read: {reason}") from error


def hub_rows(dataset: Any, source: str, columns: Sequence[str]) -> Iterator[Row]:
    """Yield (number from 1, values of `columns`) for every row."""
    for column in columns:
        if column not in dataset.column_names:
            raise missing_column(source, column, dataset.column_names)
    for number, row in enumerate(dataset.select_columns(list(columns)), start=1):
        yield number, [row[column] for column in columns]


def label_names(dataset: Any, column: str) -> tuple[str, ...] | None:
    """Return the label names that the data set defines, or None."""
    names = getattr(dataset.features.get(column), "names", None)
    return tuple(names) if names else None

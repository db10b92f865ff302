"""The data of a job as MLflow shows it: the page of the data set, and `data.md` with sample rows."""

from __future__ import annotations

import json

from mlflow.entities import Dataset, DatasetInput, InputTag

from tracking.groups.planned_job import DataSource
from training.contract.plain_text import without_markup
from training.staging.tokens.description import (
    ChannelDescription,
    balance_phrase,
    lengths_phrase,
    phrases,
    repeated_phrase,
)

FILE = "data.md"


def dataset_input(data: DataSource, key: str) -> DatasetInput:
    """Return the data as MLflow's data set. Its page shows each entry of the profile on a line of 80 characters.

    MLflow stores the profile once per name and digest, so the digest is the key of what was staged of the data, not
    that of the data.
    """
    dataset = Dataset(
        name=data.name[:500],
        digest=key[:36],
        source_type="trainfare",
        source=json.dumps({"uri": data.source, "sha256": data.digest}, ensure_ascii=False),
        schema=json.dumps({"mlflow_colspec": _columns(data)}) if data.columns else None,
        profile=json.dumps(_profile(data), ensure_ascii=False),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])


def _columns(data: DataSource) -> list[dict[str, object]]:
    return [{"name": name, "type": kind, "required": True} for name, kind in data.columns.items()]


def _profile(data: DataSource) -> dict[str, object]:
    profile: dict[str, object] = dict(data.rows)
    if data.description is None:
        return profile
    for name, channel in (("train", data.description.train), ("validation", data.description.validation)):
        profile |= {f"{name}_{key}": value for key, value in _channel(channel).items() if value is not None}
    more = {"classes": balance_phrase(data.description), "repeated_rows": repeated_phrase(data.description)}
    return profile | {name: value for name, value in more.items() if value is not None}


def _channel(channel: ChannelDescription) -> dict[str, object]:
    return {
        "source_rows": channel.source_rows if channel.source_rows != channel.rows else None,
        "tokens": channel.tokens,
        "lengths": lengths_phrase(channel),
        "rows_cut_by_max_length": channel.cut_rows,
    }


def data_markdown(data: DataSource) -> str | None:
    """Return a page with everything that is known about the data; None for data that was not described."""
    if data.description is None:
        return None
    text = [f"# {without_markup(data.name)}", "", without_markup(data.source), ""]
    text += [f"- **{name}**: {without_markup(phrase)}" for name, phrase in phrases(data.description).items()]
    samples = data.description.samples
    if samples:
        has_labels = any(sample.label is not None for sample in samples)
        text += ["", "Some training rows, drawn at random and cut at 200 characters:", ""]
        text += ["| row | label | text |" if has_labels else "| row | text |", "| --: | --- |" + " --- |" * has_labels]
        for sample in samples:
            label = f" {without_markup(sample.label or '')} |" if has_labels else ""
            text.append(f"| {sample.number} |{label} {without_markup(sample.text)} |")
    return "\n".join(text) + "\n"

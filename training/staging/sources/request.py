"""What is to be staged: the data a person named, and the tokenizer and length it is cut to."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Task = Literal["classification", "question-answering", "causal-lm"]
Builtin = Literal["docstrings"]

MOST_ROWS = 1_000_000_000
MOST_TOKENS = 131_072

Rows = Annotated[int, Field(ge=1, le=MOST_ROWS)]
Name = Annotated[str, Field(min_length=1, max_length=4_096)]


def _word_or_whole_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ValueError(f"a label must be a word or a whole number, not {'nothing' if value is None else repr(value)}")
    return value


LabelValue = Annotated[str | int, BeforeValidator(_word_or_whole_number)]
"""A label as the data spells it; 4 and '4' are the same one."""
LabelValues = Annotated[tuple[LabelValue, ...], Field(strict=False, min_length=1, max_length=10_000)]


def _scalar(value: object) -> object:
    if not isinstance(value, str | int | float | bool):
        kind = "nothing" if value is None else f"a {type(value).__name__}"
        raise ValueError(f"a value of model_overrides must be text, a number, true or false, not {kind}")
    return value


ModelOverrides = Annotated[
    dict[Name, Annotated[str | int | float | bool, BeforeValidator(_scalar)]], Field(max_length=1_000)
]


class Frozen(BaseModel):
    """Base of everything that is read from an experiment file: no unknown keys, no silent conversion, no NaN."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Columns(Frozen):
    """Which columns of the data hold what."""

    text: Name = "text"
    """Name of the column with the text."""
    text_pair: Name | None = None
    """Name of the column with the second text of a pair; None where a row has one text."""
    label: Name = "label"
    """Name of the column with the label: words, or whole numbers from 0 up."""


class Splits(Frozen):
    """Names of the splits of a Hub data set."""

    train: Name = "train"
    """Split to train on."""
    validation: Name | None = None
    """Split to evaluate on; None cuts it from the training split."""


class HubData(Frozen):
    """A data set of the Hugging Face Hub."""

    name: Name
    """Its name there, such as `dair-ai/emotion`, or a folder laid out like one."""
    config: Name | None = None
    """Its configuration; None is the only or default one."""
    revision: Name | None = None
    """Branch, tag or commit; None is what `main` points to at the time of staging."""
    splits: Splits = Splits()
    """Names of its splits."""


class Data(Frozen):
    """The labelled texts, from exactly one of: files (`train`, `validation`), the Hub (`hub`), or `builtin`."""

    train: Name | None = None
    """File to train on: JSON lines, CSV, TSV, Parquet, SQuAD's JSON or plain text, by its suffix; `.gz` may follow."""
    validation: Name | None = None
    """File to evaluate on; None cuts it from the training file."""
    hub: HubData | None = None
    """Data set of the Hub."""
    builtin: Builtin | None = None
    """Data that needs no network: `docstrings` of installed packages, labelled by package."""
    columns: Columns = Columns()
    """Which columns hold what."""
    labels: Annotated[tuple[Name, ...], Field(strict=False, min_length=2, max_length=10_000)] | None = None
    """Names of the labels in the order of their numbers; None takes them from the training rows."""
    label_map: Annotated[dict[Name, LabelValues], Field(min_length=2, max_length=10_000)] | None = None
    """Name of each class, in the order of their numbers, and the labels of the data that become it, such as
    `{negative: [1, 2], neutral: [3], positive: [4, 5]}`; it goes without `labels`, and knows every label."""
    skip_labels: LabelValues | None = None
    """Labels whose rows are left out, such as '-' where annotators did not agree; None keeps all rows."""
    validation_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2
    """Share of the training rows set aside for evaluation where the data brings none, 0 to 1."""
    split_seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """Seed of that choice; apart from the experiment's seed, so that repeats see the same data."""
    train_rows: Rows | None = None
    """Train on the first so many rows only."""
    validation_rows: Rows | None = None
    """Evaluate on the first so many rows only."""

    @model_validator(mode="after")
    def _one_source(self) -> Data:
        given = [name for name in ("train", "hub", "builtin") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"data needs exactly one of train, hub and builtin, and has {found}")
        if self.validation is not None and self.train is None:
            raise ValueError(f"data.validation is a file and goes with data.train, not with data.{given[0]}")
        if self.labels is not None and len(set(self.labels)) != len(self.labels):
            twice = next(name for name in self.labels if self.labels.count(name) > 1)
            raise ValueError(f"data.labels names {twice!r} twice")
        self._check_label_map()
        return self

    def _check_label_map(self) -> None:
        if self.label_map is None:
            return
        if self.labels is not None:
            raise ValueError("data.label_map names the classes itself and goes without data.labels")
        owners: dict[str, str] = {}
        for name, values in self.label_map.items():
            for value in map(str, values):
                if value in owners:
                    where = f"to both {owners[value]!r} and {name!r}" if owners[value] != name else f"to {name!r} twice"
                    raise ValueError(f"data.label_map gives the label {value!r} {where}")
                owners[value] = name
        for value in map(str, self.skip_labels or ()):
            if value in owners:
                raise ValueError(
                    f"data.skip_labels leaves out the label {value!r}, but data.label_map has a class for it"
                )


class StagingRequest(Frozen):
    """One staging: everything that changes what the job will read, and the least it must hold."""

    task: Task = "classification"
    """What is learnt."""
    data: Data
    """The labelled texts."""
    model: Name | None = None
    """Hub name, folder, or `package:` and the name of a packaged model; None builds one of `model_type`."""
    model_revision: Name | None = None
    """Branch, tag or commit of a Hub model."""
    weights: Literal["pretrained", "random"] = "pretrained"
    """The model's own, or random ones: then the model's configuration is staged too."""
    model_type: Name | None = None
    """Architecture of Transformers, such as `gpt2`, where `model` is None."""
    model_overrides: ModelOverrides = Field(default_factory=dict)
    """Fields of the configuration of a model with random weights that differ from its own."""
    tokenizer: Name | None = None
    """Hub name, folder, or `package:` and the name of a packaged tokenizer; None is the model's own."""
    max_length: Annotated[int, Field(ge=8, le=MOST_TOKENS)]
    """Longest sequence, special tokens included; longer ones are cut, tokens."""
    doc_stride: int = 128
    """Question answering: tokens of the context that neighbouring windows share."""
    n_best_answers: int = 20
    """Question answering: likeliest starts and ends of a window that are paired."""
    max_answer_length: int = 30
    """Question answering: longest answer that is looked for, tokens."""
    packing: bool = True
    """Causal language modelling: join all texts and cut them in blocks of `max_length`, or keep each text a row."""
    bucket_lengths: tuple[int, ...] | None = None
    """Lengths asked for, ascending, tokens; None chooses them from the data. No part of the key."""
    fewest_train_rows: int = 1
    """Refuse data with fewer training rows than this, such as one global batch. No part of the key."""

"""The staging request: data, task, model, tokenizer and sequence length."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, create_model, model_validator

from training.contract.frozen import Frozen, Name
from training.contract.s3_location import ANY_ACCOUNT, AccountFields
from training.job.settings.declared import Task
from training.job.tasks import DEFAULT_TASK, MAX_TOKENS, TASKS
from training.job.tasks.checks import plain_label
from training.staging.formats.files import UTF8, TextFormat, delimiter_character, encoding_name

Builtin = Literal["docstrings"]

MAX_ROWS = 1_000_000_000

Rows = Annotated[int, Field(ge=1, le=MAX_ROWS)]


def _word_or_number(value: object) -> object:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    if not is_number and (not isinstance(value, str) or value == ""):
        raise ValueError(f"a label must be a word or a number, not {'null' if value is None else repr(value)}")
    return plain_label(value)


LabelValue = Annotated[str | int, BeforeValidator(_word_or_number)]
"""A label as spelled in the data; 4 and '4' are the same label."""
LabelValues = Annotated[tuple[LabelValue, ...], Field(strict=False, min_length=1, max_length=10_000)]


def _scalar(value: object) -> object:
    if not isinstance(value, str | int | float | bool):
        kind = "null" if value is None else f"a {type(value).__name__}"
        raise ValueError(f"a value of model_overrides must be text, a number, true or false, not {kind}")
    return value


ModelOverrides = Annotated[
    dict[Name, Annotated[str | int | float | bool, BeforeValidator(_scalar)]], Field(max_length=1_000)
]


def _columns(value: object) -> object:
    if isinstance(value, str):
        raise ValueError(f"it lists the columns that stand for one label each; one column with lists is label: {value}")
    return value


class Columns(Frozen):
    """Names of the data's columns."""

    text: Name = "text"
    """Column with the text. `review.body` is the field `body` of the object in `review`."""
    text_pair: Name | None = None
    """Column with the second text of a pair; None for single texts."""
    label: Name = "label"
    """Column with the label: words, whole numbers, or true and false. With several labels, a list of them. It may
    also be a number to predict."""
    labels: Annotated[tuple[Name, ...], BeforeValidator(_columns), Field(strict=False, min_length=2)] | None = None
    """Columns that stand for one label each, with 1 or true in the rows that have it. Replaces `label`."""
    tokens: Name = "tokens"
    """Column with the words of a sentence, a list."""
    tags: Name = "ner_tags"
    """Column with the tags of these words, a list: names, or the numbers of `data.labels`."""
    negative: Name | None = None
    """Embeddings: column with a text that does not match; None if rows have none."""
    score: Name | None = None
    """Embeddings: column with the similarity of the two texts, a number; None if the texts of a row match."""
    target: Name = "target"
    """Column with the text to generate, for tasks that generate one."""
    messages: Name = "messages"
    """Column with the messages of a conversation."""
    prompt: Name | None = None
    """Column with the prompt of a completion; None reads `messages`."""
    completion: Name = "completion"
    """Column with the completion of a prompt."""


class Splits(Frozen):
    """Names of the splits of a Hub data set."""

    train: Name = "train"
    """Split to train on."""
    validation: Name | None = None
    """Split to evaluate on; None sets part of the training split aside."""


class HubData(Frozen):
    """A data set of the Hugging Face Hub."""

    name: Name
    """Name on the Hub, such as `dair-ai/emotion`, or a local folder with the same layout."""
    config: Name | None = None
    """Configuration of the data set; None is the default or only configuration."""
    revision: Name | None = None
    """Branch, tag or commit; None is the commit of `main` at the time of staging."""
    splits: Splits = Splits()
    """Names of the splits."""


Encoding = Annotated[Name, AfterValidator(encoding_name)]
Delimiter = Annotated[str, AfterValidator(delimiter_character)]


class Data(Frozen):
    """The data, from exactly one source: files (`train`, `validation`), the Hub (`hub`), or `builtin`."""

    train: Name | None = None
    """File or folder to train on, also in S3 (`s3://BUCKET/rows/`), or a pattern such as `shards/*.jsonl`: see
    docs/data.md."""
    validation: Name | None = None
    """File, folder or pattern to evaluate on; None sets part of the training rows aside."""
    encoding: Encoding | None = None
    """Encoding of text files, such as `utf-16`, `latin-1` or `cp1252`; None is UTF-8."""
    delimiter: Delimiter | None = None
    """Character between the fields of CSV and TSV files, or `tab`; None finds it in the header."""
    header: Annotated[tuple[Name, ...], Field(strict=False, min_length=1)] | None = None
    """Names of the columns of CSV and TSV files without a header; None reads them from the first line."""
    hub: HubData | None = None
    """Data set of the Hub."""
    builtin: Builtin | None = None
    """Data that needs no network: `docstrings` of installed packages, labelled by package."""
    columns: Columns = Columns()
    """Names of the data's columns."""
    labels: Annotated[tuple[Name, ...], Field(strict=False, min_length=2, max_length=10_000)] | None = None
    """Labels in the order of the class numbers; None takes them from the training rows."""
    label_map: Annotated[dict[Name, LabelValues], Field(min_length=2, max_length=10_000)] | None = None
    """Classes in the order of their numbers, each with its labels in the data: `{negative: [1, 2], neutral: [3],
    positive: [4, 5]}`. Excludes `labels`."""
    skip_labels: LabelValues | None = None
    """Labels whose rows are left out."""
    skip_bad_rows: bool = False
    """Leave out rows with an empty or null value in a column that the task reads, and count them."""
    validation_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2
    """Share of the rows that is set aside if there are no validation rows. With `train_rows`, a share of the first
    rows: 0.2 and 1,000 training rows set 250 of the first 1,250 aside."""
    split_seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """Seed of the split, the same for all repeats."""
    train_rows: Rows | None = None
    """Training rows to use, from the first; None uses all."""
    validation_rows: Rows | None = None
    """Validation rows to use, from the first; None uses all."""

    @property
    def text_format(self) -> TextFormat:
        """Encoding, delimiter and header of text files."""
        return TextFormat(encoding=self.encoding or UTF8, delimiter=self.delimiter, header=self.header)

    @model_validator(mode="after")
    def _one_source(self) -> Data:
        sources = [name for name in ("train", "hub", "builtin") if getattr(self, name) is not None]
        if len(sources) != 1:
            listed = " and ".join(sources) or "none"
            raise ValueError(f"data needs exactly one of train, hub and builtin; it has {listed}")
        if self.validation is not None and self.train is None:
            raise ValueError(f"data.validation is a file, so set data.train in place of data.{sources[0]}")
        for name in ("encoding", "delimiter", "header"):
            if getattr(self, name) is not None and self.train is None:
                raise ValueError(f"data.{name} is for files, so it needs data.train in place of data.{sources[0]}")
        if self.labels is not None and len(set(self.labels)) != len(self.labels):
            repeated = next(name for name in self.labels if self.labels.count(name) > 1)
            raise ValueError(f"data.labels has {repeated!r} twice")
        for name in ("labels", "label_map") if self.columns.labels else ():
            if getattr(self, name) is not None:
                raise ValueError(f"data.{name} and data.columns.labels cannot be combined: the columns name the labels")
        self._check_label_map()
        return self

    def _check_label_map(self) -> None:
        if self.label_map is None:
            return
        if self.labels is not None:
            raise ValueError("data.label_map and data.labels cannot be combined: the map names the classes itself")
        owners: dict[str, str] = {}
        for name, values in self.label_map.items():
            for value in map(str, values):
                if value in owners:
                    classes = f"both {owners[value]!r} and {name!r}" if owners[value] != name else f"{name!r} twice"
                    raise ValueError(f"data.label_map assigns the label {value!r} to {classes}")
                owners[value] = name
        for value in map(str, self.skip_labels or ()):
            if value in owners:
                raise ValueError(
                    f"data.skip_labels skips the label {value!r}, but data.label_map assigns it to a class"
                )


def _task_options() -> dict[str, Any]:
    """Return the arguments of `create_model` for the options of all tasks."""
    fields: dict[str, Any] = {}
    for name, option in (each for task in TASKS.values() for each in task.options.items()):
        kind, default = (option.type | None, None) if option.requires_task else (option.type, option.default)
        limits: Any = option.limits
        fields[name] = (kind, Field(default, description=option.help, **limits))
    return fields


if TYPE_CHECKING:

    class TaskOptions(Frozen):
        """The options of all tasks, which their files declare."""
else:
    TaskOptions = create_model("TaskOptions", __base__=Frozen, **_task_options())


class InputFields(TaskOptions):
    """Fields of an experiment that only staging takes, unchanged."""

    model_type: Name | None = None
    """Architecture in Transformers to train from scratch, such as `gpt2`."""
    model_overrides: ModelOverrides = Field(default_factory=dict)
    """Fields of the model configuration to change, such as `n_layer`. Requires random weights."""
    tokenizer: Name | None = None
    """Tokenizer, named like a model. None means the model's own. Requires random weights."""


class StagingRequest(InputFields):
    """Everything that determines a job's channels, and a lower limit on their rows."""

    task: Task = DEFAULT_TASK
    """Task to train."""
    data: Data
    """Data to train and evaluate on."""
    model: Name | None = None
    """Hub name, folder, or `package:` and the name of a packaged model; None builds a model of `model_type`."""
    model_revision: Name | None = None
    """Branch, tag or commit of a Hub model."""
    weights: Literal["pretrained", "random"] = "pretrained"
    """The model's own weights, or random weights. For random weights the model's configuration is staged too."""
    max_length: Annotated[int, Field(ge=8, le=MAX_TOKENS)]
    """Longest sequence in tokens, special tokens included. Longer sequences are truncated."""
    bucket_lengths: tuple[int, ...] | None = None
    """Bucket lengths in tokens, ascending; None chooses them from the data. Not part of the key."""
    min_train_rows: int = 1
    """Minimum number of training rows, such as one global batch. Not part of the key."""
    account: AccountFields = ANY_ACCOUNT
    """Region and profile that read data in S3. Not part of the key."""

    @model_validator(mode="before")
    @classmethod
    def _resolve_options(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Replace None by an option's default: requests for the same channels are equal."""
        defaults = {name: option.default for task in TASKS.values() for name, option in task.options.items()}
        return {**defaults, **{name: value for name, value in values.items() if value is not None}}

    @property
    def options(self) -> dict[str, Any]:
        """The task's own options, by name."""
        return {name: getattr(self, name) for name in TASKS[self.task].options}

"""A task is one object in one file, of a class that derives from `Task`. Every other file asks the object.

The container imports these files, and so does the launcher, whose `--help` must answer at once. So they import torch,
transformers, NumPy and pyarrow only in functions.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from training.job.tasks.checks import checked_text
from training.job.tasks.inputs import BadInputs, EncodedInput, Example, Rule, TokenRow, fields, parameters, text

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from training.job.data.channels import Channel, ChannelMetadata
    from training.job.data.padding import Batch
    from training.job.weights.pretrained import Pretrained

MAX_TOKENS = 131_072
"""Most tokens of a sequence."""
COMMONEST = "_commonest"
"""End of the name of a score of always giving the commonest answer of the evaluation rows. It is no measure, and only
the result has it."""

UNTRAINED = "_untrained"
"""End of the name of a score of the pretrained model, before the first step. It is no measure, and only the result has
it."""

OPTIONS_FILE = "answer_options.json"
"""File in a model's folder with the `answering_options` of its training."""
SOURCE_ROWS = "source_rows.json"
"""File in the channel of a task that `reports_first_rows`: a list with their numbers in the user's data."""


class Metric(NamedTuple):
    """A metric of an evaluation that measures quality."""

    name: str
    """Name in Trainer's log and in MLflow, such as `eval_accuracy`."""
    label: str
    """Name for people, without the unit."""
    unit: str = "number"
    """fraction: 0 to 1; percent: 0 to 100; number: any other. The margin of a comparison follows from it."""
    higher_is_better: bool = False
    """Direction of better values."""
    best: float = 0.0
    """Value of a model that is always right."""
    decimals: int = 4
    """Decimals to show."""

    @property
    def direction(self) -> Literal["min", "max"]:
        """Direction of better values, as an experiment names it."""
        return "max" if self.higher_is_better else "min"

    @property
    def text_format(self) -> str:
        """Format of a value with its unit."""
        return f"{{:.{self.decimals}f}}" + (" %" if self.unit == "percent" else "")


LOSS = Metric("eval_loss", "validation loss")
"""Metric of every task."""
F1 = Metric("eval_f1", "F1", "percent", higher_is_better=True, best=100.0, decimals=2)
"""F1 of answers or of entities."""
SPEARMAN = Metric("eval_spearman", "Spearman correlation", "fraction", higher_is_better=True, best=1.0)
PEARSON = Metric("eval_pearson", "Pearson correlation", "fraction", higher_is_better=True, best=1.0)
OWN_METRICS = (
    Metric("eval_score", "own score", higher_is_better=True, best=math.inf),
    Metric("eval_error", "own error", best=-math.inf),
)
"""Metrics of the user's own function, for any task. They come before the task's own."""


class Option(NamedTuple):
    """A field of the experiment that only one task uses. The experiment and the staging request get it from here."""

    type: Any
    """Type of its values."""
    default: Any
    """Default value."""
    help: str
    """Its text in `docs/experiments.md`."""
    limits: Mapping[str, float] = {}
    """Limits of the value, by pydantic's names."""
    requires_task: bool = False
    """True if an experiment of another task must not set it. Then None, which means `default`, is a value too."""
    read: Callable[[Any], Any] | None = None
    """Returns what staging gets for a value of the experiment, such as the text of a file. Raises ValueError."""


class ColumnNames(Protocol):
    """Names of the data's columns. `Columns` in `training/staging/sources/request.py` describes each."""

    @property
    def text(self) -> str: ...
    @property
    def text_pair(self) -> str | None: ...
    @property
    def label(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...] | None: ...
    @property
    def tokens(self) -> str: ...
    @property
    def tags(self) -> str: ...
    @property
    def negative(self) -> str | None: ...
    @property
    def score(self) -> str | None: ...
    @property
    def target(self) -> str: ...
    @property
    def messages(self) -> str: ...
    @property
    def prompt(self) -> str | None: ...
    @property
    def completion(self) -> str: ...


Label = str | int
"""Label of a row, as spelled in the data."""


class Row(NamedTuple):
    """A checked row of the data."""

    number: int
    """Number of the row in the source, from 1."""
    texts: tuple[str, ...]
    """Its texts. They identify repeated rows, and people see them as samples."""
    labels: tuple[Label, ...] = ()
    """Labels that are numbered as classes."""
    id: str = ""
    """Name of the row, which must be unique; empty if rows have none."""
    group: str = ""
    """Rows of the same group are all training rows or all validation rows; empty if rows have none."""
    detail: Any = None
    """Anything else that `encoder` needs."""


class Encoded(NamedTuple):
    """Rows of the channel that a batch of rows makes."""

    columns: "dict[str, pa.Array]"
    """Columns of the channel: `input_ids`, `token_type_ids` if the model reads them, and the task's own."""
    cut_rows: int = 0
    """Rows of the data that are longer than `max_length`."""
    tables: "dict[str, dict[str, pa.Array]] | None" = None
    """More Parquet files that an evaluation needs: columns by file name."""
    left_out_rows: int = 0
    """Rows of the data of which `max_length` cuts off all that is trained or scored, so that they make no row."""
    metadata: Mapping[str, Any] = {}
    """More fields of the channel's metadata, the same in every batch."""
    remarks: Mapping[str, int] = {}
    """Numbers of rows of the data by a remark on them, such as `without an answer, left out`."""


Encoder = Callable[[Sequence[Row], Sequence[Sequence[int]]], Encoded]
"""Encodes the next batch of rows, given the class numbers of their labels. Raises `BadData`."""


class LoadedModel(Protocol):
    """A trained model in use. `Loaded` in `models/inference/predictor.py` describes the members."""

    @property
    def model(self) -> Any: ...
    @property
    def tokenizer(self) -> Any: ...
    @property
    def adds_special_tokens(self) -> bool: ...
    @property
    def max_length(self) -> int | None: ...
    @property
    def is_cut(self) -> bool: ...
    @property
    def takes_types(self) -> bool: ...
    @property
    def pads_left(self) -> bool: ...
    @property
    def options(self) -> Mapping[str, Any]: ...

    def rows(self, texts: Sequence[Any]) -> list[TokenRow]: ...
    def forward(self, rows: Sequence[TokenRow]) -> Any: ...
    def generate(self, rows: Sequence[TokenRow], settings: Mapping[str, Any]) -> list[list[int]]: ...


class Scorer(Protocol):
    """Scores the evaluations of one job."""

    def __call__(self, prediction: Any) -> dict[str, float]:
        """Return the metrics, without the prefix `eval_`, from Trainer's `EvalPrediction` of the reduced predictions.

        Rows are in the order of the channel that the scorer was made for.
        """

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the tables of the last evaluation, by file name. Charts are drawn from them."""

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows of the last evaluation in the order of the data, for a `quality` function of the user.

        Each has `reference` and `prediction`, and what else the task knows about the row, as plain values of Python.
        The rows are made when they are asked for: most trainings do not need them.
        """


@runtime_checkable
class TextScorer(Protocol):
    """A scorer that also has these members scores texts that the model generates in each evaluation.

    A probe evaluates a sample of the channel: its scorer should generate for the same share of the rows, so that the
    time of a whole evaluation follows from the sample's.
    """

    prompts: "Sequence[Sequence[int]]"
    """Tokens for which to generate: what an encoder reads, or what a decoder continues."""
    generation_settings: Mapping[str, Any]
    """Arguments of transformers' `generate`, such as `max_new_tokens`."""

    def take_texts(self, texts: list[str]) -> None:
        """Take the text after each prompt, without special tokens. Called before the evaluation is scored."""


class Task(ABC):
    """Everything that a task is. Members without a value must be set, and abstract methods defined.

    A task also defines `outputs` and `answers`, or `generate`.
    """

    # The name, and the words of messages
    name: str
    """Name in experiments, channels and models."""
    other_names: tuple[str, ...] = ()
    """Names of the task or its columns elsewhere, with hyphens, for the message about an unknown field or task. The
    name of its `pipeline` is one of them."""
    row: str = "row"
    """Name of a row of the data."""
    cut: str = "cut"
    """Participle that says what happens to a row longer than `max_length`."""

    left_out: str = "left out"
    """Participle that says what happens to a row of which `max_length` leaves nothing to learn."""

    # The experiment
    options: Mapping[str, Option] = {}
    """Fields of the experiment that only this task uses and that change the staged data, by name."""
    scoring_options: tuple[str, ...] = ()
    """Options that an evaluation needs. Staging writes them into the metadata of the validation channel."""
    training_options: tuple[str, ...] = ()
    """Options that the training needs. Staging writes them into the metadata of the training channel."""
    evaluated_options: tuple[str, ...] = ()
    """Options that select what is evaluated. Models are compared only if these are equal."""
    length_options: tuple[str, ...] = ()
    """Options that are lengths in tokens, which the model's positions limit like `max_length`."""
    answering_options: tuple[str, ...] = ()
    """Fields of the experiment that a logged model needs to answer as in its evaluation."""

    packages: tuple[str, ...] = ()
    """Packages that a job needs beside torch and transformers, with the versions that jobs on SageMaker install."""

    # The data and the channel
    classes: str = "none"
    """Classes of a row: none; one; many: any number of them. The fields `data.labels`, `label_map` and `skip_labels`
    require a task with classes."""
    predicts_tokens: bool = False
    """True for a language model: every token is a prediction. So texts are cut into blocks, and models with different
    tokenizers are not evaluated on the same predictions."""
    usual_columns: Mapping[tuple[str, ...], str] = {}
    """Columns that show the task of somebody's data, and the fields that read them, for the message about a missing
    column: `{("messages",): "task: chat"}`."""
    without_rows: str = "no rows"
    """Description of data without usable rows, for messages."""
    group: str = "row"
    """Name of what is divided into training and validation rows."""
    rows_per_batch: int = 1_000
    """Rows that are encoded at once."""
    reports_first_rows: bool = False
    """True if evaluations report the predictions of the first rows, so that a channel has their numbers."""
    integer_columns: tuple[str, ...] = ()
    """Columns of the channel with one integer a row."""
    list_columns: tuple[str, ...] = ()
    """Columns of the channel with a list of integers a row, besides the tokens."""
    number_columns: tuple[str, ...] = ()
    """Columns of the channel with one number a row, in double precision."""

    # The model
    head: str
    """Class of transformers that loads a model with the task's head."""
    architectures: tuple[str, ...]
    """Parts of the class names that saved models of the task have in their configuration."""
    label_inputs: tuple[str, ...] = ("labels",)
    """Names of the model's label inputs."""
    has_new_head: bool = True
    """True if a training adds a head to the pretrained model, which `adapter.method: frozen` then trains."""

    # The evaluation
    metrics: tuple[Metric, ...] = (LOSS,)
    """Metrics in order of preference: comparisons judge quality by the first one."""
    scores_untrained: bool = False
    """True if the pretrained model already does the task, so that its scores before the first step are of interest."""

    texts_table: str = ""
    """Table of an evaluation that the report shows: row of the data, prompt, the data's text and the model's text."""

    # A trained model in use
    inputs: tuple[str, ...] = ("text",)
    """Texts that an input must have. If there is only one, an input is a text, else an object with these fields."""
    optional_inputs: tuple[str, ...] = ()
    """Texts that an input may have in addition."""
    names_input: bool = False
    """True if MLflow's signature names an only input, because it would take a list of lists for a table."""
    answer_fields: tuple[tuple[str, str], ...]
    """Fields of an answer, with their types in MLflow, such as `double`; `double[]` for a list, `any` for objects."""
    answer_parameters: tuple[tuple[str, str, Any], ...] = ()
    """Parameters that MLflow's signature offers: name, type in MLflow, default."""
    accepts_blanks: bool = False
    """True if the texts of an input may be blank."""
    parameter_rules: Mapping[str, Rule] = {}
    """Rules of the parameters that a request may have, by name."""
    example: Mapping[str, str] = {"text": "Winter is coming and it will be dark soon."}
    """Example of all texts of an input."""
    pipeline: str
    """Name of the task on the Hub, and of its pipeline in Hugging Face's inference toolkit."""
    generates: bool = False
    """True if an answer needs more than one run of the model."""
    has_own_endpoint_code: bool = False
    """True if the toolkit's pipeline does not answer as the evaluation does, so that an endpoint takes our code."""

    def fits(self, config: Mapping[str, Any]) -> bool:
        """Return whether the task trains models with this configuration of transformers, given as it was saved.

        Override it to distinguish models of the same class, for example by their `problem_type`.
        """
        first = str(next(iter(config.get("architectures") or []), ""))
        return any(part in first for part in self.architectures)

    @abstractmethod
    def columns(self, names: ColumnNames) -> dict[str, str]:
        """Return the data's columns that the task reads, in order, with their types as MLflow names them."""

    def metrics_of(self, names: ColumnNames) -> tuple[Metric, ...]:
        """Return the metrics of an evaluation on data with these columns."""
        return self.metrics

    @property
    def has_classes(self) -> bool:
        """True if labels are numbered as classes."""
        return self.classes != "none"

    def check_options(self, options: Any) -> None:  # noqa: B027
        """Raise ValueError if the experiment's options contradict each other."""

    def check_classes(self, names: Sequence[str]) -> None:  # noqa: B027
        """Raise `BadData` if the task cannot use classes with these names. They are known once all rows are read."""

    @abstractmethod
    def read(self, number: int, place: object, values: Sequence[Any], names: ColumnNames) -> Row | None:
        """Check the values of a row, in the order of `columns`, and return the row; None to leave it out.

        `place` is the location of the row for messages. Raises `BadData`.
        """

    def recorded_options(self, options: Mapping[str, Any], remarks: Mapping[str, int]) -> dict[str, Any]:
        """Return those of the `answering_options` that a logged model keeps.

        `remarks` are the `Encoded.remarks` on the rows with which it was evaluated.
        """
        return dict(options)

    def batch_characters(self, row: Row) -> int:
        """Return the size of a row, which limits the rows of a batch."""
        return sum(map(len, row.texts))

    @abstractmethod
    def encoder(self, tokenizer: Any, options: Mapping[str, Any], for_scoring: bool) -> Encoder:
        """Return a new encoder for the rows of a channel, with a fast tokenizer.

        `options` are `max_length` and the task's own. `for_scoring` is True for the rows of evaluations.
        """

    def no_rows(self, options: Mapping[str, Any], for_scoring: bool) -> str:
        """Return the end of the sentence about rows of the data that make no row of a channel."""
        return "make no row"

    def load_model(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> Any:
        """Return the model with the task's head."""
        import transformers

        from training.job.weights.pretrained import load

        return load(getattr(transformers, self.head), pretrained, **self.head_fields(pretrained, metadata))

    def head_fields(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> dict[str, Any]:
        """Return fields of the model's configuration that belong to the head."""
        return {}

    def write_files(self, model: Any, metadata: "ChannelMetadata", folder: Path) -> None:  # noqa: B027
        """Write files of the task's own beside a trained model."""

    def start_head(self, model: Any, train: "Channel") -> None:  # noqa: B027
        """Change the starting values of a loaded model's head, given the training rows."""

    @abstractmethod
    def targets(self, batch: "Batch") -> "dict[str, np.ndarray]":
        """Return the label arrays of a padded batch, by label input."""

    def reduce_predictions(self, predictions: Any, labels: Any) -> Any:
        """Reduce a batch's predictions to what the scorer needs, with one row for each row of the batch."""
        return predictions

    @abstractmethod
    def scorer(self, channel: "Channel") -> Scorer:
        """Return a new scorer for the rows of a channel, in their order."""

    def encode_may_refuse(self, loaded: LoadedModel) -> bool:
        """Return whether `encode_inputs` refuses some inputs that `read_inputs` accepts, such as too long ones."""
        return True

    def read_inputs(self, inputs: object, arguments: Mapping[str, Any] | None) -> list[Example]:
        """Return the examples of a request: one input or a list of inputs, and its parameters. Raises `BadInputs`."""
        if inputs == []:
            raise BadInputs("inputs is an empty list: give at least one input")
        options, values = parameters(arguments, self.parameter_rules), inputs if isinstance(inputs, list) else [inputs]
        names = ["inputs"] if len(values) == 1 else [f"inputs[{at}]" for at in range(len(values))]
        return [self._example(*each, options) for each in zip(names, values)]

    def _example(self, location: str, value: object, options: Mapping[str, Any]) -> Example:
        names, blank = (*self.inputs, *self.optional_inputs), self.accepts_blanks
        if len(names) == 1 or (len(self.inputs) == 1 and isinstance(value, str)):
            return Example(location, text(location, value, blank), options=options)
        values = fields(location, value, self.inputs, self.optional_inputs)
        given = [name for name in names if name in self.inputs or values.get(name) is not None]
        texts = [text(f"{location}.{name}", values[name], blank) for name in given]
        return Example(location, texts[0], texts[1] if len(texts) > 1 else None, options)

    def input_value(self, place: object, column: str, value: Any) -> Any:
        """Check a value of a file to predict, and return it as requests have it: by default a text.

        `place` is the location of the row for messages. Raises `BadData`.
        """
        return checked_text(place, column, value, may_be_blank=True)

    def encode_inputs(self, loaded: LoadedModel, examples: Sequence[Example]) -> list[EncodedInput]:
        """Tokenize the examples: by default texts and pairs, truncated; in a pair, the longer text first.

        Raises `BadInputs` for an example that does not fit the model.
        """
        rows = loaded.rows([each.text if each.pair is None else (each.text, each.pair) for each in examples])
        encoded = []
        for example, row in zip(examples, rows):
            if not row.ids:
                raise BadInputs(f"{example.location} has no tokens: this model's tokenizer makes none of the text")
            is_typed = loaded.takes_types and example.pair is not None
            encoded.append(EncodedInput(example, (row if is_typed else TokenRow(row.ids, None),)))
        return encoded

    def outputs(self, loaded: LoadedModel, rows: Sequence[TokenRow]) -> list[Any]:
        """Run rows as one batch and return the output of each row."""
        raise NotImplementedError

    def answers(self, loaded: LoadedModel, encoded: Sequence[EncodedInput], outputs: Sequence[Any]) -> list[Any]:
        """Return the answer to each input as a JSON value, given the outputs of all their rows in order."""
        raise NotImplementedError

    def generate(self, loaded: LoadedModel, encoded: Sequence[EncodedInput]) -> list[Any]:
        """Return the answers of one batch, in place of `outputs` and `answers`, if `generates`."""
        raise NotImplementedError

    def input_fields(self, is_of_pairs: bool) -> tuple[str, ...]:
        """Return the texts of an input of a model that was trained on pairs, or not."""
        return (*self.inputs, *self.optional_inputs) if is_of_pairs else self.inputs

    def example_input(self, is_of_pairs: bool = False) -> Any:
        """Return an example of an input: a text, or an object if an input has several."""
        names = self.input_fields(is_of_pairs)
        return {name: self.example[name] for name in names} if len(names) > 1 else self.example[names[0]]

"""A task is one object in one file, of a class that derives from `Task`. Every other file asks the object.

The container imports these files, and so does the launcher, whose `--help` must answer at once. So they import torch,
transformers, NumPy and pyarrow only in functions.
"""

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Protocol, Tuple

if TYPE_CHECKING:
    import numpy as np

    from training.job.data.channels import Channel, ChannelMetadata
    from training.job.data.padding import Batch
    from training.job.weights.pretrained import Pretrained

IGNORED_LABEL = -100
"""Label that PyTorch's cross entropy ignores."""


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
    def text_format(self) -> str:
        """Format of a value with its unit."""
        return f"{{:.{self.decimals}f}}" + (" %" if self.unit == "percent" else "")


LOSS = Metric("eval_loss", "validation loss")
"""Metric of every task."""


class ColumnNames(Protocol):
    """Names of the data's columns, from the experiment."""

    @property
    def text(self) -> str:
        """Column with the text."""

    @property
    def text_pair(self) -> Optional[str]:
        """Column with the second text of a pair, if rows have one."""

    @property
    def label(self) -> str:
        """Column with the label."""


class Scorer(Protocol):
    """Scores the evaluations of one job."""

    def __call__(self, prediction: Any) -> Dict[str, float]:
        """Return the metrics, without the prefix `eval_`, from Trainer's `EvalPrediction` of the reduced predictions.

        Rows are in the order of the channel that the scorer was made for.
        """

    def tables(self) -> Dict[str, List[Dict[str, Any]]]:
        """Return the tables of the last evaluation, by file name. Charts are drawn from them."""


class Task:
    """Everything that a task is. Members without a value must be set; methods that raise must be defined."""

    # The name, and the words of messages
    name: str
    """Name in experiments, channels and models."""
    row: str = "row"
    """Name of a row of the data."""
    cut: str = "cut"
    """Participle that says what happens to a row longer than `max_length`."""

    # The experiment
    options: Tuple[str, ...] = ()
    """Fields of the experiment that only this task uses and that change the staged data. A field without a default
    value requires the task."""
    scoring_options: Tuple[str, ...] = ()
    """Options that an evaluation needs. Staging writes them into the metadata of the validation channel."""
    answering_options: Tuple[str, ...] = ()
    """Fields of the experiment that a logged model needs to answer as in its evaluation."""

    # The data and the channel
    has_classes: bool = False
    """True if labels are numbered as classes. The fields `data.labels`, `label_map` and `skip_labels` require it."""
    predicts_tokens: bool = False
    """True for a language model: every token is a prediction. So texts are cut into blocks, and models with different
    tokenizers are not evaluated on the same predictions."""
    integer_columns: Tuple[str, ...] = ()
    """Columns of the channel with one integer a row, besides the tokens."""

    # The model
    head: str
    """Class of transformers that loads a model with the task's head."""
    architectures: Tuple[str, ...]
    """Parts of the class names that saved models of the task have in their configuration."""
    label_inputs: Tuple[str, ...] = ("labels",)
    """Names of the model's label inputs."""

    # The evaluation
    metrics: Tuple[Metric, ...] = (LOSS,)
    """Metrics in order of preference: comparisons judge quality by the first one."""

    # A trained model in use
    inputs: Tuple[str, ...] = ("text",)
    """Texts that an input must have. If there is only one, an input is a text, else an object with these fields."""
    optional_inputs: Tuple[str, ...] = ()
    """Texts that an input may have in addition."""
    answer_fields: Tuple[Tuple[str, str], ...]
    """Fields of an answer, with their types in MLflow."""
    answer_parameters: Tuple[Tuple[str, str, Any], ...] = ()
    """Parameters that MLflow's signature offers: name, type in MLflow, default."""
    example: Mapping[str, str] = {"text": "Winter is coming and it will be dark soon."}
    """Example of all texts of an input."""
    pipeline: str
    """Name of the task on the Hub, and of its pipeline in Hugging Face's inference toolkit."""
    has_own_endpoint_code: bool = False
    """True if the toolkit's pipeline does not answer as the evaluation does, so that an endpoint takes our code."""

    def columns(self, names: ColumnNames) -> Dict[str, str]:
        """Return the data's columns that the task reads, in order, with their types as MLflow names them."""
        raise NotImplementedError

    def check_options(self, options: Any) -> None:
        """Raise ValueError if the experiment's options contradict each other."""

    def check_channel(self, channel: "Channel") -> None:
        """Raise `BadData` for an invalid channel."""

    def load_model(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> Any:
        """Return the model with the task's head."""
        import transformers

        from training.job.weights.pretrained import load

        return load(getattr(transformers, self.head), pretrained, **self.head_fields(pretrained, metadata))

    def head_fields(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> Dict[str, Any]:
        """Return fields of the model's configuration that belong to the head."""
        return {}

    def targets(self, batch: "Batch") -> "Dict[str, np.ndarray]":
        """Return the label arrays of a padded batch, by label input."""
        raise NotImplementedError

    def reduce_predictions(self, predictions: Any, labels: Any) -> Any:
        """Reduce a batch's predictions to what the scorer needs, with one row for each row of the batch."""
        return predictions

    def scorer(self, channel: "Channel") -> Scorer:
        """Return a new scorer for the rows of a channel, in their order."""
        raise NotImplementedError

    def input_fields(self, is_of_pairs: bool) -> Tuple[str, ...]:
        """Return the texts of an input of a model that was trained on pairs, or not."""
        return (*self.inputs, *self.optional_inputs) if is_of_pairs else self.inputs

    def example_input(self, is_of_pairs: bool = False) -> Any:
        """Return an example of an input: a text, or an object if an input has several."""
        names = self.input_fields(is_of_pairs)
        return {name: self.example[name] for name in names} if len(names) > 1 else self.example[names[0]]

"""What the job uses of objects of other libraries: a model of transformers, and its configuration."""

from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Protocol, Tuple

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import EvalPrediction


class Config(Protocol):
    """Configuration of a model. Other fields depend on the model's architecture."""

    model_type: str
    vocab_size: int

    def to_dict(self) -> Dict[str, object]:
        """Return all fields."""


class Model(Protocol):
    """A loaded model: a `torch.nn.Module` of transformers, with the head of a task."""

    config: Config
    base_model: "nn.Module"
    """The model without its head."""

    def forward(self, **inputs: "Tensor") -> object:
        """Return the loss and the outputs of a batch."""

    def num_parameters(self, *, exclude_embeddings: bool = False) -> int:
        """Return the number of parameters."""

    def get_input_embeddings(self) -> "nn.Module":
        """Return the embeddings of the tokens."""

    def set_input_embeddings(self, embeddings: "nn.Module") -> None:
        """Exchange the embeddings of the tokens."""

    def get_output_embeddings(self) -> "Optional[nn.Module]":
        """Return the layer that computes a score for each token, or None."""

    def set_attn_implementation(self, name: str) -> None:
        """Exchange the attention."""

    def modules(self) -> "Iterator[nn.Module]":
        """Yield all modules, the model first."""

    def named_modules(self) -> "Iterator[Tuple[str, nn.Module]]":
        """Yield all modules with their names."""

    def parameters(self) -> "Iterator[Tensor]":
        """Yield all weights."""

    def named_parameters(self) -> "Iterator[Tuple[str, Tensor]]":
        """Yield all weights with their names."""

    def state_dict(self, *, keep_vars: bool = False) -> "Dict[str, Tensor]":
        """Return all weights and buffers by name."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""


class Scorer(Protocol):
    """Scores the evaluations of a job."""

    def __call__(self, prediction: "EvalPrediction") -> Dict[str, float]:
        """Return the metrics of an evaluation, without the prefix `eval_`."""

    def tables(self) -> Dict[str, List[Dict[str, object]]]:
        """Return the tables of the last evaluation, by file name."""

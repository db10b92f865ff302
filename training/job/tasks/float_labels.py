"""Classifiers of transformers whose labels are floats, and the start of their head."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from training.job.tasks.classification import Classification
from training.job.tasks.task import Option

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from training.job.data.channels import Channel

START_AT_MEAN = "start_at_mean"
START_OPTION = Option(
    bool,
    True,
    "Several labels, and numbers: start the bias of a new head at the mean of the training labels (for several labels, "
    "the log-odds of each) (true, None), or at 0 as Trainer does (false).",
    requires_task=True,
)


class FloatLabels(Classification):
    """A head whose labels are floats."""

    options: Mapping[str, Option] = {START_AT_MEAN: START_OPTION}
    training_options = (START_AT_MEAN,)
    integer_columns: tuple[str, ...] = ()

    def fits(self, config: Mapping[str, Any]) -> bool:
        """Return whether a model has been trained on labels of this kind."""
        return super().fits(config) and config.get("problem_type") == self.problem_type

    def start_head(self, model: Any, train: "Channel") -> None:
        """Start a new head at the mean of the labels: an epoch may be too short to learn it from zero.

        Lin et al. 2017 (https://arxiv.org/abs/1708.02002, section 4.1) start at the rate of a rare class.
        """
        import torch

        bias = _new_bias(model)
        if bias is not None and train.metadata.options[START_AT_MEAN]:
            with torch.no_grad():
                bias.copy_(torch.from_numpy(self.mean_logits(train)))

    @abstractmethod
    def mean_logits(self, train: "Channel") -> "np.ndarray":
        """Return the logits that predict the mean of the labels, one for each output of the model."""


def _new_bias(model: Any) -> "Tensor | None":
    """Return the bias of the head's output; None if it has none, or was trained before."""
    from torch import nn

    body = {id(each) for each in model.base_model.modules()}
    outputs = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and id(module) not in body and module.out_features == model.config.num_labels
    ]
    if not outputs:
        return None
    name, output = outputs[-1]
    new_weights = getattr(model, "new_weights", None)  # None if all weights are random
    return output.bias if new_weights is None or f"{name}.bias" in new_weights else None

"""Causal language modelling: predict each token from those before it."""

import math
from typing import TYPE_CHECKING, Any, Dict, List

from training.job.processes.reporting import BadData
from training.job.tasks.task import IGNORED_LABEL, LOSS, ColumnNames, Metric, Scorer, Task

if TYPE_CHECKING:
    import numpy as np

    from training.job.data.channels import Channel, ChannelMetadata
    from training.job.data.padding import Batch
    from training.job.weights.pretrained import Pretrained

LARGEST_EXPONENT = 709.0
"""Largest loss whose exponential is finite in double precision."""


class CausalLM(Task):
    """Texts packed into blocks of equal length, or one row per text."""

    name = "causal-lm"
    row = "text"
    options = ("packing",)
    predicts_tokens = True
    head = "AutoModelForCausalLM"
    architectures = ("ForCausalLM", "LMHeadModel")
    metrics = (LOSS, Metric("eval_perplexity", "perplexity", best=1.0, decimals=2))
    answer_fields = (("generated_text", "string"),)
    answer_parameters = (("max_new_tokens", "long", 50), ("do_sample", "boolean", False))
    pipeline = "text-generation"

    def columns(self, names: ColumnNames) -> Dict[str, str]:
        """Return the text column. Labels are not read."""
        return {names.text: "string"}

    def check_channel(self, channel: "Channel") -> None:
        """Raise `BadData` if a row has no token to predict: alone in a batch, its loss would be NaN."""
        [short] = (channel.rows.lengths < 2).nonzero()
        if len(short):
            raise BadData(
                f"{channel.data_file}: row {short[0]} has one token, but learning to predict the next token needs two"
            )

    def head_fields(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> Dict[str, Any]:
        """Make a decoder of an architecture that is an encoder by default, such as BERT: it attends to later tokens."""
        import transformers

        source = {} if pretrained.is_folder else {"revision": pretrained.revision or "main"}
        try:
            config = transformers.AutoConfig.from_pretrained(pretrained.location, **source)
        except (OSError, ValueError):
            return {}  # Loading the model raises the same error with a message.
        return {"is_decoder": True} if hasattr(config, "is_decoder") else {}

    def targets(self, batch: "Batch") -> "Dict[str, np.ndarray]":
        """Return each token as its own label: the models shift the labels. Padding and filler rows have none."""
        labels = batch.input_ids.copy()
        labels[batch.attention_mask == 0] = IGNORED_LABEL
        labels[len(batch.rows) :] = IGNORED_LABEL
        return {"labels": labels}

    def reduce_predictions(self, predictions: Any, labels: Any) -> Any:
        """Return each row's summed loss and number of predicted tokens, rows x 2.

        They replace the logits, which are 100 MB for a row of 512 tokens with GPT-2. Rows are processed one by one,
        because each needs that much memory again.
        """
        import torch

        logits = predictions[0] if isinstance(predictions, tuple) else predictions
        rows = []
        for row, label in zip(logits, labels):
            loss = torch.nn.functional.cross_entropy(
                row[:-1].float(), label[1:], reduction="sum", ignore_index=IGNORED_LABEL
            )
            rows.append(torch.stack([loss, (label[1:] != IGNORED_LABEL).sum().to(loss.dtype)]))
        return torch.stack(rows)

    def scorer(self, channel: "Channel") -> Scorer:
        """Return the scorer of reduced predictions."""
        return TokenLoss()


class TokenLoss:
    """Compute the loss per token, unbiased by the rows' lengths, and the perplexity from the sums."""

    def __call__(self, prediction: Any) -> Dict[str, float]:
        # Replaces Trainer's eval_loss, which is the mean of the batch means.
        loss_sum, tokens = prediction.predictions.astype("float64").sum(axis=0)
        loss = float(loss_sum / tokens)
        # Without a perplexity if the model diverged.
        return {"loss": loss, **({"perplexity": math.exp(loss)} if loss <= LARGEST_EXPONENT else {})}

    def tables(self) -> Dict[str, List[Dict[str, Any]]]:
        """Return an empty dictionary: this task has no tables."""
        return {}

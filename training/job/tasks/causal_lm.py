"""Causal language modelling: predict each token from those before it."""

import math
from typing import Any, Dict, List

import numpy as np
import torch
import transformers

from training.job.data.channels import DATA, Channel, ChannelMetadata
from training.job.data.padding import IGNORED_LABEL, Batch
from training.job.processes.reporting import BadData
from training.job.weights.pretrained import Pretrained, load

COLUMNS = ()
LABELS = ("labels",)

LARGEST_EXPONENT = 709.0
"""Largest loss whose exponential is finite in double precision."""


def check(channel: Channel) -> None:
    """Raise `BadData` if a row has no token to predict: alone in a batch, its loss would be NaN."""
    short = np.flatnonzero(channel.rows.lengths < 2)
    if len(short):
        raise BadData(
            f"{channel.folder / DATA}: row {short[0]} has one token, but learning to predict the next token needs two"
        )


def load_model(pretrained: Pretrained, metadata: ChannelMetadata) -> Any:
    """Return the model with a head for the vocabulary."""
    head = {"is_decoder": True} if _may_be_encoder(pretrained) else {}
    return load(transformers.AutoModelForCausalLM, pretrained, **head)


def _may_be_encoder(pretrained: Pretrained) -> bool:
    """Return True if the architecture can be an encoder, such as BERT, which attends to later tokens by default."""
    source = {} if pretrained.is_folder else {"revision": pretrained.revision or "main"}
    try:
        return hasattr(transformers.AutoConfig.from_pretrained(pretrained.location, **source), "is_decoder")
    except (OSError, ValueError):
        return False  # Loading the model raises the same error with a message.


def targets(batch: Batch) -> Dict[str, np.ndarray]:
    """Return each token as its own label, because the models shift the labels. Padding and filler rows have none."""
    labels = np.where(batch.attention_mask == 1, batch.input_ids, IGNORED_LABEL)
    labels[len(batch.rows) :] = IGNORED_LABEL
    return {"labels": labels}


def reduce_predictions(predictions: Any, labels: Any) -> Any:
    """Return each row's summed loss and number of predicted tokens, rows x 2.

    They replace the logits, which are 100 MB for a row of 512 tokens with GPT-2. Rows are processed one by one, because
    each needs that much memory again.
    """
    logits = predictions[0] if isinstance(predictions, tuple) else predictions
    rows = []
    for row, label in zip(logits, labels):
        loss = torch.nn.functional.cross_entropy(
            row[:-1].float(), label[1:], reduction="sum", ignore_index=IGNORED_LABEL
        )
        rows.append(torch.stack([loss, (label[1:] != IGNORED_LABEL).sum().to(loss.dtype)]))
    return torch.stack(rows)


class Scorer:
    """Compute the loss per token, unbiased by the rows' lengths, and the perplexity from the sums."""

    def __init__(self, channel: Channel) -> None:
        pass

    def __call__(self, prediction: Any) -> Dict[str, float]:
        # Replaces Trainer's eval_loss, which is the mean of the batch means.
        loss_sum, tokens = np.asarray(prediction.predictions, dtype=np.float64).sum(axis=0)
        loss = float(loss_sum / tokens)
        # Without a perplexity if the model diverged.
        return {"loss": loss, **({"perplexity": math.exp(loss)} if loss <= LARGEST_EXPONENT else {})}

    def tables(self) -> Dict[str, List[Dict[str, Any]]]:
        """Return an empty dictionary: this task has no tables."""
        return {}

"""Causal language modelling: every token is predicted from those before it."""

import math
from typing import Any, Dict, List, Optional

import numpy as np
import torch
import transformers

from data.channels import DATA, Channel, ChannelMetadata
from data.padding import IGNORED_LABEL, Batch
from reporting.errors import BadData
from weights.pretrained import Pretrained, load

COLUMNS = ()
LABELS = ("labels",)

LARGEST_EXPONENT = 709.0
"""Above it the exponential is no finite number in double precision."""


def check(channel: Channel) -> None:
    """Raise `BadData` when a row has nothing to predict: alone in a batch its loss would be no number."""
    short = np.flatnonzero(channel.rows.lengths < 2)
    if len(short):
        raise BadData(
            f"{channel.folder / DATA}: row {short[0]} has one token; the next one is learnt, so two are needed"
        )


def load_model(pretrained: Pretrained, metadata: ChannelMetadata) -> Any:
    """Return the model with a head for the vocabulary."""
    head = {"is_decoder": True} if _may_look_ahead(pretrained) else {}
    return load(transformers.AutoModelForCausalLM, pretrained, **head)


def _may_look_ahead(pretrained: Pretrained) -> bool:
    """Tell whether the architecture is an encoder too (BERT, say), which looks ahead unless it is told not to."""
    source = {} if pretrained.is_folder else {"revision": pretrained.revision or "main"}
    try:
        return hasattr(transformers.AutoConfig.from_pretrained(pretrained.location, **source), "is_decoder")
    except (OSError, ValueError):
        return False  # loading the model says what is wrong


def targets(batch: Batch) -> Dict[str, np.ndarray]:
    """Return each token as its own label: the models shift them. Padding and rows that fill up are left out."""
    labels = np.where(batch.attention_mask == 1, batch.input_ids, IGNORED_LABEL)
    labels[len(batch.rows) :] = IGNORED_LABEL
    return {"labels": labels}


def kept(predictions: Any, labels: Any) -> Any:
    """Return the summed loss and the count of predicted tokens of each row, rows x 2.

    Kept in place of the logits, which for GPT-2 take 100 MB a row of 512 tokens. Row by row, for as much again is
    needed on the way.
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
    """Turns the kept sums into the loss a token, which rows of unlike length do not bias, and the perplexity."""

    def __init__(self, channel: Channel) -> None:
        pass

    def __call__(self, prediction: Any) -> Dict[str, float]:
        # Trainer's own eval_loss is the mean of the batches' means: this takes its place.
        loss_sum, tokens = np.asarray(prediction.predictions, dtype=np.float64).sum(axis=0)
        loss = float(loss_sum / tokens)
        perplexity = _perplexity(loss)
        return {"loss": loss, **({} if perplexity is None else {"perplexity": perplexity})}

    def tables(self) -> Dict[str, List[Dict[str, Any]]]:
        """Return none: there are no classes."""
        return {}


def _perplexity(loss: float) -> Optional[float]:
    """Return exp(loss), or None where that is no finite number: a model that diverged."""
    return math.exp(loss) if loss <= LARGEST_EXPONENT else None

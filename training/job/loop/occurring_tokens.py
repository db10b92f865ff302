"""Train with the embeddings of the tokens that occur.

A token that occurs in no row has no gradient: AdamW changes its embedding by weight decay alone (Loshchilov and Hutter
2019, https://arxiv.org/abs/1711.05101, algorithm 2). Without such embeddings the trained weights are the same up to
rounding, and the optimizer has less to do: they are half of MiniLM and two thirds of the multilingual DistilBERT, and
of BERT's 30,522 tokens some 5,000 occur in 2,000 short texts. What is saved has all embeddings.
"""

from contextlib import contextmanager
from typing import Any, Iterator, List

import numpy as np
import torch
from torch import nn

from training.job.processes import ranks
from training.job.settings.job_settings import Settings

LARGEST_SHARE = 0.75
"""Largest share of occurring tokens for which the others are left out."""
SYNTHETIC_TOKEN = 0
"""Token of the rows with which shapes are compiled (`loop/compile_phase.py`)."""


class OccurringTokens(nn.Embedding):  # type: ignore[misc]
    """Embeddings of some tokens, looked up with the numbers that the tokens have in the whole vocabulary.

    A last row of ones has no token, so only weight decay changes it: it holds the factor for the tokens left out.
    """

    weight: Any

    def __init__(self, whole: nn.Embedding, tokens: Any) -> None:
        """Take the embeddings of `tokens`, an ascending tensor of numbers."""
        row_of = torch.full((whole.num_embeddings,), -1)
        row_of[tokens] = torch.arange(len(tokens))
        padding = None if whole.padding_idx is None else int(row_of[whole.padding_idx])
        super().__init__(len(tokens) + 1, whole.embedding_dim, padding_idx=None if padding == -1 else padding)
        self.register_buffer("row_of", row_of, persistent=False)
        self.tokens = tokens
        self.take(whole)

    def forward(self, tokens: Any) -> Any:
        """Return the embeddings of the tokens, rows x length x width."""
        return super().forward(self.row_of[tokens])

    def take(self, whole: nn.Embedding) -> None:
        """Take the values of these embeddings."""
        # A list, because a module would become a part of this one.
        self._whole: List[nn.Embedding] = [whole]
        with torch.no_grad():
            self.weight[:-1] = whole.weight[self.tokens]
            self.weight[-1] = 1

    def whole(self) -> nn.Embedding:
        """Return the embeddings of the whole vocabulary, with the present values. Call `take` before the next step."""
        with torch.no_grad():
            self._whole[0].weight.mul_(self.weight[-1])
            self._whole[0].weight[self.tokens] = self.weight[:-1]
        return self._whole[0]


def use_occurring_tokens(model: Any, settings: Settings) -> None:
    """Leave out the embeddings of tokens that do not occur, where that gives the same training and is worth it."""
    embeddings = model.get_input_embeddings()
    # A GPU takes no time for these embeddings, and processes would have to agree on them.
    if settings.device_kind != "cpu" or ranks.count() > 1 or settings.arguments.optimizer != "auto":
        return
    if not can_leave_out(model):
        return
    occurs = np.zeros(embeddings.num_embeddings, dtype=bool)
    occurs[SYNTHETIC_TOKEN] = True
    for channel in (settings.train, settings.validation):
        occurs[channel.rows.tokens] = True
        if 0 <= channel.metadata.pad_token_id < len(occurs):
            occurs[channel.metadata.pad_token_id] = True
    if occurs.mean() <= LARGEST_SHARE:
        model.set_input_embeddings(OccurringTokens(embeddings, torch.from_numpy(np.flatnonzero(occurs))))


def can_leave_out(model: Any) -> bool:
    """Return True if the model uses its embeddings only to look up tokens, in one module.

    The head of a language model computes a score for each token, and the encoder and decoder of T5 share embeddings.
    """
    embeddings = model.get_input_embeddings()
    if type(embeddings) is not nn.Embedding or model.get_output_embeddings() is not None:
        return False
    users = [each for each in model.modules() if getattr(each, "weight", None) is embeddings.weight]
    return len(users) == 1


@contextmanager
def whole_vocabulary(model: Any) -> Iterator[None]:
    """Give the model the embeddings of its whole vocabulary while its weights are saved or loaded."""
    occurring = model.get_input_embeddings()
    if not isinstance(occurring, OccurringTokens):
        yield
        return
    whole = occurring.whole()
    model.set_input_embeddings(whole)
    try:
        yield
    finally:
        occurring.take(whole)
        model.set_input_embeddings(occurring)

"""Train with the embeddings of the tokens that occur.

A token that occurs in no row has no gradient, and without weight decay AdamW leaves its embedding as it is. Without
such embeddings the trained weights are the same, up to rounding in the norm of the gradient, and the optimizer has less
to do: they are half of MiniLM and a fifth of BERT base, and of BERT's 30,522 tokens some 5,000 occur in 2,000 short
texts. What is saved has all embeddings.
"""

from contextlib import contextmanager
from typing import Any, Iterator, List

import numpy as np
import torch
from torch import nn

from processes import ranks
from settings.job_settings import Settings

LARGEST_SHARE = 0.75
"""Largest share of occurring tokens for which the others are left out."""
SYNTHETIC_TOKEN = 0
"""Token of the rows with which shapes are compiled (`loop/compile_phase.py`)."""


class OccurringTokens(nn.Embedding):  # type: ignore[misc]
    """Embeddings of some tokens, looked up with the numbers that the tokens have in the whole vocabulary."""

    weight: Any

    def __init__(self, whole: nn.Embedding, tokens: Any) -> None:
        """Take the embeddings of `tokens`, an ascending tensor of numbers."""
        row_of = torch.full((whole.num_embeddings,), -1)
        row_of[tokens] = torch.arange(len(tokens))
        padding = None if whole.padding_idx is None else int(row_of[whole.padding_idx])
        padding = None if padding == -1 else padding
        rows = whole.weight.detach()[tokens]
        super().__init__(len(tokens), whole.embedding_dim, padding_idx=padding, _weight=rows)
        self.register_buffer("row_of", row_of, persistent=False)
        self.tokens = tokens
        # A list, because a module would become a part of this one.
        self._whole: List[nn.Embedding] = [whole]

    def forward(self, tokens: Any) -> Any:
        """Return the embeddings of the tokens, rows x length x width."""
        return super().forward(self.row_of[tokens])

    def whole(self) -> nn.Embedding:
        """Return the embeddings of the whole vocabulary, with the present values."""
        with torch.no_grad():
            self._whole[0].weight[self.tokens] = self.weight
        return self._whole[0]

    def take(self, whole: nn.Embedding) -> None:
        """Take the values of these embeddings."""
        self._whole = [whole]
        with torch.no_grad():
            self.weight.copy_(whole.weight[self.tokens])


def use_occurring_tokens(model: Any, settings: Settings) -> None:
    """Leave out the embeddings of tokens that do not occur, where that gives the same training and is worth it."""
    embeddings = model.get_input_embeddings()
    # A GPU takes no time for these embeddings, and processes would have to agree on them.
    if settings.device_kind != "cpu" or ranks.count() > 1 or settings.arguments.weight_decay:
        return
    # The head of a language model computes a score for each token of the vocabulary.
    if type(embeddings) is not nn.Embedding or model.get_output_embeddings() is not None:
        return
    occurs = np.zeros(embeddings.num_embeddings, dtype=bool)
    occurs[SYNTHETIC_TOKEN] = True
    for channel in (settings.train, settings.validation):
        occurs[channel.rows.tokens] = True
        occurs[max(channel.metadata.pad_token_id, SYNTHETIC_TOKEN)] = True
    if occurs.mean() <= LARGEST_SHARE:
        model.set_input_embeddings(OccurringTokens(embeddings, torch.from_numpy(np.flatnonzero(occurs))))


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

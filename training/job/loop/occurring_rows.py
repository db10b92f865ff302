"""Train only the embeddings of tokens that occur in the training data.

The row of any other token never has a gradient. AdamW then keeps its moments at zero and changes it by weight decay
alone (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101, algorithm 2), so the optimizer, the norm of the
gradient and the exchange between processes can leave it out: the trained weights are the same up to rounding. Of
BERT's 30,522 rows, some 5,000 occur in 2,000 short texts; the embeddings are a fifth of BERT base, half of MiniLM, and
two thirds of the multilingual DistilBERT.
"""

from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from data.channels import Channel
from settings.job_settings import Settings

MODEL_TYPES = frozenset(
    {"albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta"}
)
"""Models that use the weight of their word embeddings only to look up input tokens, through the module."""
LARGEST_SHARE = 0.75
"""Largest share of occurring rows for which the others are left out."""
TOKENS_AT_ONCE = 1 << 20


class OccurringRows(nn.Embedding):  # type: ignore[misc]
    """Word embeddings whose parameter has only the rows of tokens that occur. State dictionaries have all rows."""

    weight: Any

    def __init__(self, embeddings: nn.Embedding, occurs: np.ndarray) -> None:
        """Take the weight of `embeddings`. `occurs` is True for each of its rows that is to be trained."""
        rows = np.flatnonzero(occurs)
        padding = embeddings.padding_idx
        row_of = np.full(len(occurs), -1)
        row_of[rows] = np.arange(len(rows))
        with torch.no_grad():
            weight = embeddings.weight[torch.from_numpy(rows)].clone()
        super().__init__(
            len(rows),
            embeddings.embedding_dim,
            padding_idx=None if padding is None or row_of[padding] < 0 else int(row_of[padding]),
            _weight=weight,
        )
        # No buffers: DistributedDataParallel would send them to all processes at every step.
        self._rows, self._row_of_token = torch.from_numpy(rows), torch.from_numpy(row_of)
        self._all_rows = embeddings.weight.detach().clone()
        self.pending_decay = 1.0
        """Product of the factors of weight decay that the untrained rows have not had yet."""

    @property
    def left_out(self) -> int:
        """Number of values that are not trained."""
        return int(self._all_rows.numel() - self.weight.numel())

    def forward(self, tokens: Any) -> Any:
        """Look tokens up: among the occurring rows in training, and among all rows in evaluations."""
        if self.training:
            return functional.embedding(self._row_of_token[tokens], self.weight, self.padding_idx)
        return functional.embedding(tokens, self._all_rows)

    def train(self, mode: bool = True) -> "OccurringRows":
        """Switch between training and evaluation, for which all rows are brought up to date."""
        if not mode:
            self.all_rows()
        super().train(mode)
        return self

    def all_rows(self) -> Any:
        """Bring all rows up to date and return them, without gradients."""
        with torch.no_grad():
            if self.pending_decay != 1.0:
                self._all_rows.mul_(self.pending_decay)
                self.pending_decay = 1.0
            # Copied every time: the weight's `_version` does not show a change by the fused optimizer.
            self._all_rows[self._rows] = self.weight
        return self._all_rows

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        self._rows, self._row_of_token, self._all_rows = fn(self._rows), fn(self._row_of_token), fn(self._all_rows)
        return super()._apply(fn, *args, **kwargs)

    def _save_to_state_dict(self, destination: Dict[str, Any], prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"] = self.all_rows()

    def _load_from_state_dict(
        self,
        state_dict: Dict[str, Any],
        prefix: str,
        local_metadata: Dict[str, Any],
        strict: bool,
        missing_keys: List[str],
        unexpected_keys: List[str],
        error_msgs: List[str],
    ) -> None:
        whole: Optional[Any] = state_dict.get(prefix + "weight")
        if whole is None:
            missing_keys.append(prefix + "weight")
            return
        with torch.no_grad():
            self._all_rows.copy_(whole)
            self.weight.copy_(self._all_rows[self._rows])
        self.pending_decay = 1.0


def occurring_rows(model: Any) -> Optional[OccurringRows]:
    """Return the model's word embeddings if they have only the occurring rows, else None."""
    embeddings = model.get_input_embeddings()
    return embeddings if isinstance(embeddings, OccurringRows) else None


def use_occurring_rows(model: Any, settings: Settings) -> None:
    """Replace the model's word embeddings by `OccurringRows` where the result is equal up to rounding and it pays."""
    if not _is_allowed(settings, model.config.model_type):
        return
    embeddings = model.get_input_embeddings()
    if type(embeddings) is not nn.Embedding or _is_shared(model, embeddings.weight):
        return
    occurs = _occurring(settings.train, embeddings.num_embeddings)
    if occurs.mean() <= LARGEST_SHARE:
        model.set_input_embeddings(OccurringRows(embeddings, occurs))


def follow_decay(model: Any, optimizer: Any) -> None:
    """After each step of the optimizer, record the weight decay that the rows outside of it still have to get."""
    embeddings = occurring_rows(model)
    if embeddings is None:
        return
    groups = [each["params"] for each in optimizer.param_groups]
    index = next(at for at, group in enumerate(groups) if any(each is embeddings.weight for each in group))
    if not optimizer.param_groups[index]["weight_decay"]:
        return

    def decay(*_: Any) -> None:
        assert embeddings is not None
        # accelerate replaces the groups, so the one of the start keeps an outdated learning rate.
        group = optimizer.param_groups[index]
        embeddings.pending_decay *= 1 - float(group["lr"]) * group["weight_decay"]

    optimizer.register_step_post_hook(decay)


def parameter_count(model: Any) -> int:
    """Return the number of the model's parameters, with those that are not trained."""
    embeddings = occurring_rows(model)
    return int(model.num_parameters()) + (embeddings.left_out if embeddings else 0)


def row_metrics(model: Any) -> Dict[str, int]:
    """Return the number of trained rows as a metric; empty if all are trained."""
    embeddings = occurring_rows(model)
    return {"optim/trained_embedding_rows": embeddings.num_embeddings} if embeddings else {}


def _is_allowed(settings: Settings, model_type: str) -> bool:
    if settings.arguments.optimizer != "auto" or model_type not in MODEL_TYPES:
        return False
    # Sharding divides all rows among the processes. A second, whole copy would use the memory that it saves.
    if settings.device_kind == "xla" or settings.arguments.sharding != "none":
        return False
    # A loss scale skips steps, and with them their weight decay.
    follows = hasattr(torch.optim.Optimizer, "register_step_post_hook") and settings.precision != "fp16"
    return follows or not settings.arguments.weight_decay


def _is_shared(model: Any, weight: Any) -> bool:
    """Return True if another module has the same weight, such as the head of a language model."""
    owners: Tuple[Any, ...] = tuple(
        module for module in model.modules() if any(each is weight for each in module._parameters.values())
    )
    return len(owners) != 1


def _occurring(channel: Channel, vocabulary_size: int) -> np.ndarray:
    occurs = np.zeros(vocabulary_size, dtype=bool)
    occurs[0] = True  # `loop/compile_phase.synthetic_rows` consist of token 0.
    tokens = channel.rows.tokens
    for start in range(0, len(tokens), TOKENS_AT_ONCE):
        occurs[tokens[start : start + TOKENS_AT_ONCE]] = True
    if 0 <= channel.metadata.pad_token_id < vocabulary_size:
        occurs[channel.metadata.pad_token_id] = True
    return occurs

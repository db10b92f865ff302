"""Attention masks that nothing reads: the collator knows on the CPU whether a batch has padding.

transformers leaves out the mask of a batch without padding, so that a faster kernel can run. To find out, it reads the
mask in every forward pass. On a GPU, that waits for all earlier work, so the next kernels cannot be queued meanwhile.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor

from training.job.compilation import blockwise
from training.job.processes.reporting import Unsupported


class AttentionMasks:
    """Mask functions in the registry of transformers. They make the same masks as those they replace."""

    def __init__(self, model: transformers.PreTrainedModel) -> None:
        """Register the functions if the model is a common one, which makes no other masks, and transformers is new."""
        self._is_padded: bool | None = None
        if int(transformers.__version__.partition(".")[0]) < 5 or model.config.model_type not in blockwise.MODEL_TYPES:
            return
        from transformers import AttentionMaskInterface
        from transformers.masking_utils import eager_mask, sdpa_mask

        for name, function in (("eager", eager_mask), ("sdpa", sdpa_mask), (blockwise.NAME, sdpa_mask)):
            AttentionMaskInterface.register(name, partial(self._mask, function))

    @contextmanager
    def of_batch(self, is_padded: bool | None) -> Iterator[None]:
        """Say if the batch that runs inside the context has padding. With None, the mask is read."""
        self._is_padded = is_padded
        try:
            yield
        finally:
            self._is_padded = None

    def _mask(
        self, function: Callable[..., Tensor | None], *, attention_mask: Tensor | None = None, **options: Any
    ) -> Tensor | None:
        # A program is compiled for batches with padding and without, and reads nothing.
        if not torch.compiler.is_compiling() and attention_mask is not None:
            if self._is_padded:
                options.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
            elif self._is_padded is False:
                attention_mask = None
        return function(attention_mask=attention_mask, **options)


TEXT_TOKENS = 4
LARGEST_CHANGE = 1e-4
"""Share of the largest logit. Separate texts change each other by 0, and leaks by 1e-3 or more in random models."""


def check_separation(model: torch.nn.Module) -> None:
    """Raise `Unsupported` if texts that are packed into a row see each other in this model.

    transformers separates texts whose positions restart, without an attention mask and a cache. That depends on its
    version, the model and the attention, and none of them reports it. So this runs two rows of two texts each, changes
    the first texts, and compares the logits of the second ones.
    """
    was_training, device = model.training, next(model.parameters()).device
    tokens = torch.arange(2 * 2 * TEXT_TOKENS, device=device).reshape(2, -1)
    others = torch.cat([tokens[:, :TEXT_TOKENS].flip(0), tokens[:, TEXT_TOKENS:]], dim=1)
    positions = torch.arange(TEXT_TOKENS, device=device).repeat(2, 2)
    model.eval()
    try:
        with torch.no_grad():
            first, second = (
                model(input_ids=ids, position_ids=positions).logits[:, TEXT_TOKENS:].float() for ids in (tokens, others)
            )
        are_separate = bool((first - second).abs().max() <= LARGEST_CHANGE * first.abs().max())
    except TypeError:  # It takes no positions.
        are_separate = False
    finally:
        model.train(was_training)
    if not are_separate:
        attention = getattr(model.config, "_attn_implementation", None) or "its attention"
        raise Unsupported(
            f"packing needs a model that keeps the texts of a row apart. With transformers {transformers.__version__} "
            f"and {attention}, model type {model.config.model_type} does not: set packing to false"
            + (", or attention to sdpa" if "flash" in attention else "")
        )

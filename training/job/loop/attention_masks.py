"""Attention masks that nothing reads: the collator knows on the CPU whether a batch has padding.

transformers leaves out the mask of a batch without padding, so that a faster kernel can run. To find out, it reads the
mask in every forward pass. On a GPU, that waits for all earlier work, so the next kernels cannot be queued meanwhile.
"""

from contextlib import contextmanager
from functools import partial
from typing import Any, Callable, Iterator, Optional

import torch
import transformers
from torch import Tensor

from training.job.compilation import blockwise
from training.job.processes.protocols import Model


class AttentionMasks:
    """Mask functions in the registry of transformers. They make the same masks as those they replace."""

    def __init__(self, model: Model) -> None:
        """Register the functions if the model is a common one, which makes no other masks, and transformers is new."""
        self._is_padded: Optional[bool] = None
        if int(transformers.__version__.partition(".")[0]) < 5 or model.config.model_type not in blockwise.MODEL_TYPES:
            return
        from transformers import AttentionMaskInterface
        from transformers.masking_utils import eager_mask, sdpa_mask

        for name, function in (("eager", eager_mask), ("sdpa", sdpa_mask), (blockwise.NAME, sdpa_mask)):
            AttentionMaskInterface.register(name, partial(self._mask, function))

    @contextmanager
    def of_batch(self, is_padded: Optional[bool]) -> Iterator[None]:
        """Say if the batch that runs inside the context has padding. With None, the mask is read."""
        self._is_padded = is_padded
        try:
            yield
        finally:
            self._is_padded = None

    def _mask(
        self, function: Callable[..., Optional[Tensor]], *, attention_mask: Optional[Tensor] = None, **options: Any
    ) -> Optional[Tensor]:
        # A program is compiled for batches with padding and without, and reads nothing.
        if not torch.compiler.is_compiling() and attention_mask is not None:
            if self._is_padded:
                options.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
            elif self._is_padded is False:
                attention_mask = None
        return function(attention_mask=attention_mask, **options)

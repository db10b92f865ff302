"""Attention over rows that follow each other without padding, as an implementation that transformers can look up.

On a GPU, PyTorch's FlashAttention kernel takes the boundaries of the rows. It is the operator below `varlen_attn` and
below attention over nested tensors. We call the operator because `varlen_attn` has no dropout, and BERT,
RoBERTa, DistilBERT and GPT-2 have one of 0.1 by default. Elsewhere, each row is computed separately.
"""

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch.nn import functional

from reporting.errors import Unsupported

NAME = "padding_free"
"""Name of the implementation in the registry of transformers."""
CAPABILITY = (8, 0)
"""First compute capability for which PyTorch has the kernel."""
KERNEL_DTYPES = (torch.bfloat16, torch.float16)
HEAD_MULTIPLE = 8
"""The kernel needs heads whose width is a multiple of this number."""


class PackedRows:
    """Position of the rows of one batch, whose tokens follow each other without padding."""

    def __init__(self, mask: Any, tokens: Optional[int] = None) -> None:
        """Take the attention mask, rows x length: 1 for a token, 0 for padding.

        `tokens` is the number of ones. Without it, the mask is read, which waits for the device.
        """
        self.shape = tuple(mask.shape)
        """Rows and length of the padded batch."""
        self.mask = mask.bool()
        self.tokens = int(mask.sum()) if tokens is None else tokens
        self.cumulative = functional.pad(self.mask.sum(1).cumsum(0), (1, 0)).to(torch.int32)
        """Number of tokens before each row, and of all rows; rows + 1 integers."""
        self.attentions = 0
        """Number of times that `attend` was called for this batch."""
        self._lengths: Optional[List[int]] = None
        # A stable sort moves the tokens to the front in order. `nonzero` would wait for the device.
        at = torch.argsort(self.mask.flatten().int(), descending=True, stable=True)[: self.tokens]
        self._at: Any = at if self.tokens < self.mask.numel() else None

    def pack(self, padded: Any) -> Any:
        """Return the tokens' values, 1 x tokens x width, from those of the padded batch, rows x length x width."""
        flat = padded.reshape(-1, padded.shape[-1])
        return (flat if self._at is None else flat.index_select(0, self._at)).unsqueeze(0)

    def unpack(self, packed: Any) -> Any:
        """Return the padded batch, rows x length x width, from 1 x tokens x width. Padding is 0."""
        width = packed.shape[-1]
        if self._at is None:
            return packed.reshape(*self.shape, width)
        zeros = packed.new_zeros(self.mask.numel(), width)
        return zeros.index_copy(0, self._at, packed.squeeze(0)).reshape(*self.shape, width)

    def lengths(self) -> List[int]:
        """Return the tokens of each row. The first call waits for the device."""
        if self._lengths is None:
            self._lengths = self.mask.sum(1).tolist()
        return self._lengths


def attend(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: Optional[float] = None,
    dropout: float = 0.0,
    **_: Any,
) -> Tuple[Any, None]:
    """Return the attention of each token to the tokens of its row, 1 x tokens x heads x width, and no weights.

    Arguments are those of transformers' implementations: `query`, `key` and `value` are 1 x heads x tokens x width. The
    rows come from the module's attribute `padding_free`, so the mask is not used.
    """
    rows: PackedRows = module.padding_free.rows
    rows.attentions += 1
    has_kernel = query.is_cuda and query.dtype in KERNEL_DTYPES
    compute = flash_attention if has_kernel else reference_attention
    return compute(query, key, value, rows, dropout, bool(module.is_causal), scaling), None


def flash_attention(
    query: Any, key: Any, value: Any, rows: PackedRows, dropout: float, is_causal: bool, scaling: Optional[float]
) -> Any:
    """Return the attention, 1 x tokens x heads x width, by one kernel for all rows. In 16 bits on a GPU."""
    width = query.shape[-1]
    scaling = width**-0.5 if scaling is None else scaling
    filler = -width % HEAD_MULTIPLE
    tensors = [functional.pad(each, (0, filler)) if filler else each for each in (query, key, value)]
    # The longest row has at most the length of the padded batch. The exact number would have to be read back.
    longest = rows.shape[1]
    output = torch.ops.aten._flash_attention_forward(
        *(each.squeeze(0).transpose(0, 1) for each in tensors),
        rows.cumulative,
        rows.cumulative,
        longest,
        longest,
        dropout,
        is_causal,
        False,
        scale=scaling,
    )[0]
    return output[..., :width].unsqueeze(0)


def reference_attention(
    query: Any, key: Any, value: Any, rows: PackedRows, dropout: float, is_causal: bool, scaling: Optional[float]
) -> Any:
    """Return the attention, 1 x tokens x heads x width, one row after the other. On any device and in any precision."""
    parts = zip(*(each.split(rows.lengths(), dim=2) for each in (query, key, value)))
    options: Dict[str, Any] = {"dropout_p": dropout, "is_causal": is_causal, "scale": scaling}
    outputs = [functional.scaled_dot_product_attention(*part, **options) for part in parts]
    return torch.cat(outputs, dim=2).transpose(1, 2)


def check_device(device_kind: str, precision: str) -> None:
    """Raise `Unsupported` if a GPU cannot train without padding at this precision. A CPU uses the reference."""
    if device_kind == "cpu":
        return
    if precision == "fp32":
        raise Unsupported(
            "padding none needs precision bf16, fp16 or auto on a GPU, not fp32: FlashAttention computes in 16 bits"
        )
    capability = torch.cuda.get_device_capability()
    if capability < CAPABILITY:
        raise Unsupported(
            f"padding none needs a GPU of compute capability 8.0 or higher, but this one has {capability[0]}."
            f"{capability[1]}: use padding longest"
        )
    is_available = getattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    if not is_available() or not hasattr(torch.ops.aten, "_flash_attention_forward"):
        raise Unsupported(
            f"padding none needs FlashAttention, which torch {torch.__version__} was built without: use padding longest"
        )

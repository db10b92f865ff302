"""Train without padding: the layers of a model compute only real tokens.

Batches stay padded outside of the layers, so labels, positions, poolers and heads are as in padded training. A hook
in front of the layers removes the padding: rows x length x width becomes 1 x tokens x width. A hook behind them puts it
back as zeros. In between, every product, norm and dropout is computed for each token separately. Only attention relates
tokens to each other, so it has an implementation of its own, which transformers looks up.

On a GPU, PyTorch's FlashAttention kernel takes the boundaries of the rows. It is the operator below `varlen_attn` and
below attention over nested tensors. We call the operator because `varlen_attn` has no dropout, and BERT,
RoBERTa, DistilBERT and GPT-2 have one of 0.1 by default. Elsewhere, each row is computed separately.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from training.job.data.padding import PACKED_TOKENS
from training.job.processes.reporting import Unsupported
from training.job.weights.pretrained import set_attention

NAME = "padding_free"
"""Name of the implementation in the registry of transformers."""
CAPABILITY = (8, 0)
"""First compute capability for which PyTorch has the kernel."""
KERNEL_DTYPES = (torch.bfloat16, torch.float16)
HEAD_MULTIPLE = 8
"""The kernel needs heads whose width is a multiple of this number."""

MODEL_TYPES = ("albert", "bert", "camembert", "distilbert", "electra", "gpt2", "roberta", "xlm-roberta")
"""Models whose layers mix tokens only in attention, and use no position beyond the order within a row."""


def install(model: PreTrainedModel) -> None:
    """Make the model compute without padding. What it saves is a plain model. Raises `Unsupported`."""
    model_type = model.config.model_type
    if model_type not in MODEL_TYPES:
        raise Unsupported(
            f"padding none does not support models of type {model_type}, only {', '.join(MODEL_TYPES)}: use padding "
            "longest"
        )
    try:
        from transformers import AttentionInterface
    except ImportError:
        raise _unsupported_version("models") from None
    # Without a registered function for masks, models build none.
    AttentionInterface.register(NAME, attend)
    if not set_attention(model, NAME):
        raise _unsupported_version(model_type)
    _Hooks().attach(model)


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


class PackedRows:
    """Position of the rows of one batch, whose tokens follow each other without padding."""

    def __init__(self, mask: Tensor, tokens: int | None = None) -> None:
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
        self._lengths: list[int] | None = None
        # A stable sort moves the tokens to the front in order. `nonzero` would wait for the device.
        at = torch.argsort(self.mask.flatten().int(), descending=True, stable=True)[: self.tokens]
        self._at: Tensor | None = at if self.tokens < self.mask.numel() else None

    def pack(self, padded: Tensor) -> Tensor:
        """Return the tokens' values, 1 x tokens x width, from the padded batch, rows x length x width."""
        flat = padded.reshape(-1, padded.shape[-1])
        return (flat if self._at is None else flat.index_select(0, self._at)).unsqueeze(0)

    def unpack(self, packed: Tensor) -> Tensor:
        """Return the padded batch, rows x length x width, from 1 x tokens x width. Padding is 0."""
        width = packed.shape[-1]
        if self._at is None:
            return packed.reshape(*self.shape, width)
        zeros = packed.new_zeros(self.mask.numel(), width)
        return zeros.index_copy(0, self._at, packed.squeeze(0)).reshape(*self.shape, width)

    def lengths(self) -> list[int]:
        """Return the tokens of each row. The first call waits for the device."""
        if self._lengths is None:
            self._lengths = self.mask.sum(1).tolist()
        return self._lengths


class _Hooks:
    """Hooks of one model, and the rows of the batch that it computes."""

    def __init__(self) -> None:
        self.rows: PackedRows | None = None

    def attach(self, model: nn.Module) -> None:
        """Register the hooks. A module of attention reads the rows from its attribute `padding_free`."""
        parent, layers = _layers(model.base_model)
        for module in layers.modules():
            if hasattr(module, "is_causal"):
                module.padding_free = self
        model.register_forward_pre_hook(self._begin, with_kwargs=True)
        # Most models have an encoder around their layers, which begins and ends once even if a layer runs again,
        # as in ALBERT. GPT-2's layers are directly in the base model, which also looks up the embeddings.
        has_encoder = parent is not model.base_model
        (parent if has_encoder else layers[0]).register_forward_pre_hook(self._pack, with_kwargs=True)
        (parent if has_encoder else layers[-1]).register_forward_hook(self._unpack)

    def _begin(self, model: PreTrainedModel, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        kwargs = dict(kwargs)
        tokens = kwargs.pop(PACKED_TOKENS, None)
        self.rows = PackedRows(kwargs["attention_mask"], tokens)
        return args, kwargs

    def _pack(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        assert self.rows is not None
        if args:
            return (self.rows.pack(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": self.rows.pack(kwargs["hidden_states"])}

    def _unpack(self, module: nn.Module, args: Any, output: Any) -> Tensor:
        assert self.rows is not None
        if not self.rows.attentions:
            # The model's own attention would mix the rows.
            raise _unsupported_version(type(module).__name__)
        if isinstance(output, torch.Tensor):
            return self.rows.unpack(output)
        if isinstance(output, tuple):
            return (self.rows.unpack(output[0]), *output[1:])
        output["last_hidden_state"] = self.rows.unpack(output["last_hidden_state"])
        return output


def _layers(base_model: nn.Module) -> tuple[nn.Module, nn.ModuleList]:
    """Return the outermost list of layers, and the module that contains it."""
    for module in base_model.modules():
        for child in module.children():
            if isinstance(child, nn.ModuleList):
                return module, child
    raise _unsupported_version(type(base_model).__name__)


def _unsupported_version(name: str) -> Unsupported:
    import transformers

    return Unsupported(
        f"padding none needs transformers 5 or later, in which {name} can use an attention that we register, but "
        f"{transformers.__version__} is installed: use padding longest"
    )


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: object,
) -> tuple[Tensor, None]:
    """Return the attention of each token to the tokens of its row, 1 x tokens x heads x width, and no weights.

    Arguments are as in transformers' implementations: `query`, `key` and `value` are 1 x heads x tokens x width. The
    rows come from the module's attribute `padding_free`, so the mask is not used.
    """
    rows: PackedRows = module.padding_free.rows
    rows.attentions += 1
    has_kernel = query.is_cuda and query.dtype in KERNEL_DTYPES
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    compute = flash_attention if has_kernel else reference_attention
    return compute(query, key, value, rows, dropout, bool(module.is_causal), scaling), None


def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, rows: PackedRows, dropout: float, is_causal: bool, scaling: float
) -> Tensor:
    """Return the attention, 1 x tokens x heads x width, by one kernel for all rows. In 16 bits on a GPU."""
    width = query.shape[-1]
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
    query: Tensor, key: Tensor, value: Tensor, rows: PackedRows, dropout: float, is_causal: bool, scaling: float
) -> Tensor:
    """Return the attention, 1 x tokens x heads x width, one row after the other. On any device and in any precision."""
    parts = zip(*(each.split(rows.lengths(), dim=2) for each in (query, key, value)))
    options: dict[str, Any] = {"dropout_p": dropout, "is_causal": is_causal, "scale": scaling}
    outputs = [functional.scaled_dot_product_attention(*part, **options) for part in parts]
    return torch.cat(outputs, dim=2).transpose(1, 2)

"""Train without padding: the layers of a model compute only real tokens.

Batches stay padded outside of the layers, so labels, positions, poolers and heads are those of padded training. A hook
in front of the layers removes the padding: rows x length x width becomes 1 x tokens x width. A hook behind them puts it
back as zeros. In between, every product, norm and dropout is computed for each token separately. Only attention relates
tokens to each other, so it has an implementation of its own (`attention/varlen.py`).
"""

from typing import Any, Dict, Optional, Tuple

import torch
from torch import nn

from attention import varlen
from attention.varlen import PackedRows
from data.padding import PACKED_TOKENS
from reporting.errors import Unsupported
from settings.job_settings import Settings
from weights.pretrained import set_attention

MODEL_TYPES = ("albert", "bert", "camembert", "distilbert", "electra", "gpt2", "roberta", "xlm-roberta")
"""Models whose layers mix tokens only in attention, and use no position beyond the order within a row."""


def use_padding_free(model: Any, settings: Settings) -> None:
    """Make the model compute without padding if the job's padding is `none`.

    Raises `Unsupported` if the device, the precision, the model or the version of transformers does not allow it.
    """
    if settings.padding.kind != "none":
        return
    varlen.check_device(settings.device_kind, settings.precision)
    install(model)


def install(model: Any) -> None:
    """Make the model compute without padding. What it saves remains that of a plain model. Raises `Unsupported`."""
    model_type = model.config.model_type
    if model_type not in MODEL_TYPES:
        raise Unsupported(
            f"padding none does not support models of type {model_type}, only {', '.join(MODEL_TYPES)}: use padding "
            "longest"
        )
    _register()
    if not set_attention(model, varlen.NAME):
        raise _unsupported_version(model_type)
    _Hooks().attach(model)


class _Hooks:
    """Hooks of one model, and the rows of the batch that it computes."""

    def __init__(self) -> None:
        self.rows: Optional[PackedRows] = None

    def attach(self, model: Any) -> None:
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
        if hasattr(model, "qa_outputs"):
            model.qa_outputs.register_forward_hook(self._exclude_padding)

    def _begin(self, model: Any, args: Any, kwargs: Dict[str, Any]) -> Tuple[Any, Dict[str, Any]]:
        kwargs = dict(kwargs)
        tokens = kwargs.pop(PACKED_TOKENS, None)
        self.rows = PackedRows(kwargs["attention_mask"], tokens)
        return args, kwargs

    def _pack(self, module: Any, args: Any, kwargs: Dict[str, Any]) -> Tuple[Any, Dict[str, Any]]:
        assert self.rows is not None
        if args:
            return (self.rows.pack(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": self.rows.pack(kwargs["hidden_states"])}

    def _unpack(self, module: Any, args: Any, output: Any) -> Any:
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

    def _exclude_padding(self, module: Any, args: Any, logits: Any) -> Any:
        """Give padding no share in the loss of question answering, which is a softmax over all positions of a row."""
        assert self.rows is not None
        return logits.masked_fill(~self.rows.mask.unsqueeze(-1), torch.finfo(logits.dtype).min)


def _layers(base_model: Any) -> Tuple[Any, Any]:
    """Return the outermost list of layers, and the module that contains it."""
    for module in base_model.modules():
        for child in module.children():
            if isinstance(child, nn.ModuleList):
                return module, child
    raise _unsupported_version(type(base_model).__name__)


def _register() -> None:
    try:
        from transformers import AttentionInterface
    except ImportError:
        raise _unsupported_version("models") from None
    # Without a registered function for masks, models build none.
    AttentionInterface.register(varlen.NAME, varlen.attend)


def _unsupported_version(name: str) -> Unsupported:
    import transformers

    return Unsupported(
        f"padding none needs transformers 5 or later, in which {name} can use an attention that we register, but "
        f"{transformers.__version__} is installed: use padding longest"
    )

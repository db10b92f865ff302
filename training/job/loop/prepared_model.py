"""Changes to a loaded model before a training. Except for an adapter, they leave what is saved as it was."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import MethodType
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from training.job.compilation import blockwise
from training.job.loop import padding_free
from training.job.measuring.hardware import disable_cudnn_attention
from training.job.processes import ranks
from training.job.processes.reporting import Unsupported
from training.job.settings.job_settings import Settings
from training.job.weights import adapters
from training.job.weights.pretrained import set_attention


def prepare(model: transformers.PreTrainedModel, settings: Settings) -> Settings:
    """Make the changes: Liger's kernels, an adapter, attention, 8-bit layers, and layers without padding.

    Return the settings with the attention in use. Raises `Unsupported` if the model cannot have the changes.
    """
    if settings.arguments.kernels == "liger":
        use_liger(model, predicts_tokens=settings.task.predicts_tokens)
    if settings.arguments.adapter:
        adapters.attach(model, settings.arguments.adapter, keeps_head=not settings.task.has_new_head)
    if settings.attention == "flash_attention_2" and settings.precision == "fp32":
        raise Unsupported("attention flash_attention_2 computes in 16 bits, not fp32: use precision bf16, fp16 or auto")
    settings = replace(settings, attention=_use_attention(model, settings))
    use_occurring_tokens(model, settings)
    if settings.precision == "fp8":
        convert_to_float8(model)
    if settings.padding.is_packed:
        padding_free.check_device(settings.device_kind, settings.precision)
        padding_free.install(model)
    return settings


def _use_attention(model: transformers.PreTrainedModel, settings: Settings) -> str:
    """Choose what `auto` leaves to the model, and return the attention in use. With `padding: none`, it stays `auto`.

    On a GPU, transformers has chosen. On a CPU, blockwise attention replaces eager where the model can use it.
    """
    compiles = settings.compiler.compiles_here
    if settings.device_kind == "cuda":
        if not settings.eval_padding.is_static:
            # cuDNN plans every new shape, and evaluations have at least as many shapes as the training.
            disable_cudnn_attention()
        in_use = getattr(model.config, "_attn_implementation", None)
        is_open = settings.attention == "auto" and settings.arguments.padding != "none"
        return str(in_use) if is_open and in_use else settings.attention
    if settings.attention == blockwise.NAME:
        blockwise.register(compiles)
    is_open = settings.arguments.attention == "auto" and settings.attention == "eager" and settings.device_kind == "cpu"
    is_known = int(transformers.__version__.partition(".")[0]) >= 5 and model.config.model_type in blockwise.MODEL_TYPES
    if is_open and is_known and blockwise.register(compiles):
        return blockwise.NAME if set_attention(model, blockwise.NAME) else settings.attention
    return settings.attention


# Liger's kernels: Triton programs in place of a decoder's norms, rotary embeddings, MLPs and loss.


def use_liger(model: transformers.PreTrainedModel, *, predicts_tokens: bool) -> None:
    """Exchange modules of a loaded model for Liger's. The model keeps its parameters and its configuration.

    `predicts_tokens` is True for a language model. Raises `Unsupported` if Liger has no kernels for the model.
    """
    try:
        from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN, _apply_liger_kernel_to_instance

        check_liger_type(model.config.model_type, MODEL_TYPE_TO_APPLY_LIGER_FN)
        _apply_liger_kernel_to_instance(model=model, **liger_options(predicts_tokens=predicts_tokens))
    # Classes and names that the installed versions do not have, or that have no kernels.
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        raise Unsupported(
            f"kernels liger needs a liger-kernel with kernels for {type(model).__name__} ({error}): run `pip install "
            f"liger-kernel`, or use kernels torch"
        ) from error


def check_liger_type(model_type: str, supported: Any) -> None:
    """Raise `Unsupported` if a model type is not one of the supported ones. Liger itself only logs it."""
    if model_type not in supported:
        raise Unsupported(
            f"kernels liger does not support model type {model_type!r}, only decoders such as gemma2, llama, mistral, "
            f"phi3 and qwen3 (list: https://github.com/linkedin/Liger-Kernel): use kernels torch"
        )


def liger_options(*, predicts_tokens: bool) -> dict[str, bool]:
    """Return Liger's arguments that switch kernels off.

    Liger's cross entropy would replace PyTorch's own function for the whole process, evaluation included. Its fused
    loss belongs to language models: it would replace the forward pass of a classifier by a language model's. In
    training it computes no logits; in evaluations, which read them, it does.
    """
    off = {"cross_entropy": False}
    return off if predicts_tokens else {**off, "fused_linear_cross_entropy": False}


# Embeddings of the tokens that occur.

LARGEST_SHARE = 0.75
"""Largest share of occurring tokens for which the others are left out."""
SYNTHETIC_TOKEN = 0
"""Token of the rows with which shapes are compiled (`compile_phase.py`)."""


class OccurringTokens(nn.Embedding):  # type: ignore[misc]
    """Embeddings of some tokens, looked up with the numbers that the tokens have in the whole vocabulary.

    A last row of ones has no token, so only weight decay changes it: it holds the factor for the tokens left out.
    """

    weight: Tensor

    def __init__(self, whole: nn.Embedding, tokens: Tensor) -> None:
        """Take the embeddings of `tokens`, an ascending tensor of numbers."""
        row_of = torch.full((whole.num_embeddings,), -1)
        row_of[tokens] = torch.arange(len(tokens))
        padding = None if whole.padding_idx is None else int(row_of[whole.padding_idx])
        super().__init__(len(tokens) + 1, whole.embedding_dim, padding_idx=None if padding == -1 else padding)
        self.register_buffer("row_of", row_of, persistent=False)
        self.tokens = tokens
        self.take(whole)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the embeddings of the tokens, rows x length x width."""
        return super().forward(self.row_of[tokens])

    def take(self, whole: nn.Embedding) -> None:
        # A list, because a module would become a part of this one.
        self._whole: list[nn.Embedding] = [whole]
        with torch.no_grad():
            self.weight[:-1] = whole.weight[self.tokens]
            self.weight[-1] = 1

    def whole(self) -> nn.Embedding:
        """Return the embeddings of the whole vocabulary, with the present values. Call `take` before the next step."""
        with torch.no_grad():
            self._whole[0].weight.mul_(self.weight[-1])
            self._whole[0].weight[self.tokens] = self.weight[:-1]
        return self._whole[0]


def use_occurring_tokens(model: transformers.PreTrainedModel, settings: Settings) -> None:
    """Leave out the embeddings of tokens that do not occur, where that gives the same training and is worth it.

    A token that occurs in no row has no gradient: AdamW changes its vector by weight decay alone (Loshchilov and Hutter
    2019, https://arxiv.org/abs/1711.05101, algorithm 2). Without such embeddings the trained weights differ only by
    rounding, and the optimizer has less to do: they are half of MiniLM and two thirds of the multilingual
    DistilBERT, and of BERT's 30,522 tokens some 5,000 occur in 2,000 short texts. What is saved has all embeddings.
    """
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


def can_leave_out(model: transformers.PreTrainedModel) -> bool:
    """Return True if the model uses its embeddings only to look up tokens, in one module.

    The head of a language model computes a score for each token, and the encoder and decoder of T5 share embeddings.
    """
    embeddings = model.get_input_embeddings()
    if type(embeddings) is not nn.Embedding or model.get_output_embeddings() is not None:
        return False
    if not embeddings.weight.requires_grad:  # frozen beside an adapter
        return False
    users = [each for each in model.modules() if getattr(each, "weight", None) is embeddings.weight]
    return len(users) == 1


@contextmanager
def whole_vocabulary(model: transformers.PreTrainedModel) -> Iterator[None]:
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


# Matrix products in 8 bits: float8 training of torchao, on top of bf16 by autocast.

MULTIPLE = 16
"""Divisor of both dimensions of a matrix that tensor cores multiply in 8 bits (`torch._scaled_mm`)."""
NOT_CONVERTED = frozenset({"experts", "gate", "router"})
"""Names of modules in mixtures of experts. A batch may have no token for an expert, and an empty matrix has no scale.
The choice of an expert is sensitive to rounding."""


def linears_to_convert(model: transformers.PreTrainedModel) -> list[str]:
    """Return the names of the linear layers that compute in 8 bits: all in the model's repeated layers.

    Heads and embeddings stay in 16 bits. The loss reads the outputs of a head, which may be few.
    """
    stacks = tuple(f"{name}." for name, module in model.named_modules() if isinstance(module, nn.ModuleList))
    return [
        name
        for name, module in model.named_modules()
        # Subclasses may use their weight in other ways.
        if type(module) is nn.Linear
        and name.startswith(stacks)
        and not NOT_CONVERTED.intersection(name.split("."))
        and not any(size % MULTIPLE for size in module.weight.shape)
    ]


def convert_to_float8(model: transformers.PreTrainedModel) -> None:
    """Exchange the linear layers of a loaded model, which keeps its parameters.

    torchao's layers scale and round their input, weight and gradient to 8 bits before each product. The weights stay in
    single precision, under the same names, so optimizer, checkpoints and saved models are as in bf16.

    Raises `Unsupported` if the model has no layer to exchange, or if torchao does not fit the installed torch.
    """
    names = frozenset(linears_to_convert(model))
    if not names:
        raise Unsupported(
            f"precision fp8 cannot speed up model type {model.config.model_type!r}: its repeated layers have no "
            f"torch.nn.Linear whose dimensions are multiples of {MULTIPLE}; use precision bf16"
        )
    try:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    # torchao reads names of torch that older versions do not have.
    except (ImportError, AttributeError) as error:
        raise Unsupported(
            f"precision fp8 needs a torchao that works with torch {torch.__version__} ({error}): run `pip install "
            "torchao`, or use precision bf16"
        ) from error
    # The gradient of a weight is a sum over the tokens of a batch, whose number is not always a multiple of 16.
    config = Float8LinearConfig(pad_inner_dim=True)
    convert_to_float8_training(model, module_filter_fn=lambda _, name: name in names, config=config)


@contextmanager
def in_16_bits(model: transformers.PreTrainedModel) -> Iterator[None]:
    """Compute the exchanged layers as plain linear layers inside the context.

    Evaluations use it, because the saved model is a plain one: it is scored as it will be used.
    """
    layers = [module for module in model.modules() if type(module).__name__ == "Float8Linear"]
    for layer in layers:
        layer.forward = MethodType(nn.Linear.forward, layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward

"""Peak memory of a training on one device, estimated from the model's configuration. Pure, and imports no torch.

Weights, gradients and AdamW's two states are in single precision. A backward pass needs what the forward pass has kept:
for each token of a batch, so many bytes for every hidden unit, every inner unit of the feed-forward layers, and every
pair of tokens that attention relates, as Korthikanti et al. 2022 count them (https://arxiv.org/abs/2205.05198, section
4.1). Their count is for 16-bit weights and fused dropout. The bytes in `MODELS` were counted with PyTorch's
`saved_tensors_hooks`, and a test compares them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

GIB = 2.0**30
SINGLE = 4
"""Bytes of a number in single precision."""
IN_4_BITS = 0.57
"""Bytes of a weight in 4 bits, with its scales: Dettmers et al. 2023, https://arxiv.org/abs/2305.14314, section 3."""
STATES = 8
"""Bytes of AdamW's states for each trained weight: two numbers in single precision."""
PROCESS_BYTES = 0.5 * GIB
"""Resident memory of a job on a CPU beside its tensors: Python, torch, transformers and pyarrow. Measured."""
CPU_GAPS = 0.18
"""Gaps between activations in a CPU's heap, as a share of them: measured with MiniLM at batches of 8, 64 and 256."""
CPU_SCORE_GAPS = 1.0
"""The same for the scores of a language model, which are a few large blocks: measured with a small GPT-2."""
CONTEXT_BYTES = 0.6 * GIB
"""Memory of a GPU that torch and CUDA use beside tensors. Not measured: see docs/measuring.md."""
BLOCK_QUERIES = 256
"""Queries in a block of causal attention, as in training/job/compilation/blockwise.py."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What a layer of one kind of model keeps for the backward pass, without dropout.

    Bytes for each token and unit: in single precision, and with 16-bit matrix products on a CPU and on a GPU.
    """

    hidden: tuple[float, float, float] = (16, 16, 16)
    """Bytes of a hidden unit outside of attention."""
    attended: tuple[float, float, float] = (16, 8, 8)
    """Bytes of a unit of attention's heads: queries, keys, values and result."""
    inner: tuple[float, float, float] = (8, 4, 4)
    """Bytes of an inner unit of the feed-forward layer."""
    dropouts: int = 2
    """Dropouts of hidden units."""
    inner_dropouts: int = 0
    linears: int = 5
    """Linear layers whose inputs are hidden units. One more has inner units as its input."""
    frozen_hidden: float = 0
    """Bytes of a hidden unit that a layer does not keep if its own weights are frozen beside an adapter."""
    is_gated: bool = False
    """True if a third matrix multiplies the inner units."""
    is_blockwise: bool = True
    """True if `attention: auto` is our own attention on a CPU."""


_ENCODER = Kept()
_GELU_PIECES = (20, 10, 16)
"""GELU by its approximation with tanh in single operations, each of which keeps a number."""
_DECODER = Kept(hidden=(24, 26, 26), inner=(16, 8, 8), dropouts=0, linears=6, frozen_hidden=8, is_gated=True)
MODELS: Mapping[str, Kept] = {
    **dict.fromkeys(("bert", "camembert", "electra", "roberta", "xlm-roberta"), _ENCODER),
    "distilbert": replace(_ENCODER, dropouts=1),
    "albert": replace(_ENCODER, hidden=(16, 8, 16), inner=_GELU_PIECES, dropouts=1),
    "gpt2": replace(_ENCODER, hidden=(16, 12, 12), inner=_GELU_PIECES, linears=3),
    **dict.fromkeys(("llama", "mistral", "qwen2"), _DECODER),
    "gemma": replace(_DECODER, is_blockwise=False),
    "qwen3": replace(_DECODER, attended=(32, 20, 20)),
    "t5": replace(
        _ENCODER, hidden=(24, 28, 28), inner=(4, 4, 4), inner_dropouts=1, frozen_hidden=8, is_blockwise=False
    ),
    "bart": replace(_ENCODER, is_blockwise=False),
}
"""Model types that can be estimated."""
DECODERS = ("llama", "mistral", "qwen2", "qwen3", "gemma")
UNTIED = ("llama", "mistral", "qwen2", "qwen3")
"""Model types whose head has weights of its own by default."""
GATED_T5 = (28, 14, 22)
"""`inner` of a T5 with a gated feed-forward layer, such as Flan-T5."""
CROSS = 1.5
"""A decoder's layer beside an encoder has a second attention: half as much again as the encoder's, except inner."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of a model, from its configuration."""

    kept: Kept
    hidden: int
    inner: int
    heads: int
    attended: int
    """Units of all heads of the queries."""
    keys: int
    """Units of all heads of the keys, which several heads of the queries may share."""
    layers: int
    decoder_layers: int
    """Layers of the decoder beside an encoder; 0 for a model of one stack."""
    vocabulary: int
    dropout: float
    attention_dropout: float
    width: int
    """Units of the vector that a token is looked up as."""
    predicts_tokens: bool
    parameters: int = 0
    new: int = 0
    """Parameters of the head that are trained beside an adapter."""

    @property
    def embedded(self) -> int:
        """Parameters of the token embeddings."""
        return self.vocabulary * self.width


def shape_of(config: Mapping[str, Any], head: str, labels: int = 2) -> Shape | None:
    """Return the sizes of the model with this configuration of transformers; None for a type that is not in `MODELS`.

    `head` is the name of the class of transformers that loads it.
    """
    kind, kept = str(config.get("model_type")), MODELS.get(str(config.get("model_type")))
    if kept is None:
        return None

    def of(*names: str, default: float = 0) -> Any:
        return next((config[name] for name in names if config.get(name) is not None), default)

    hidden, heads = of("hidden_size", "n_embd", "d_model", "dim"), of("num_attention_heads", "n_head", "num_heads")
    heads = heads or of("encoder_attention_heads", "n_heads")
    inner = of("intermediate_size", "n_inner", "d_ff", "encoder_ffn_dim", "hidden_dim", default=4 * hidden)
    layers = of("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "n_layers")
    is_pair = kind in ("t5", "bart")
    if kind == "t5" and str(config.get("feed_forward_proj", "relu")).startswith("gated"):
        kept = replace(kept, inner=GATED_T5, is_gated=True)
    attended = heads * of("head_dim", "d_kv", default=hidden // heads)
    shape = Shape(
        kept=kept,
        hidden=hidden,
        inner=inner,
        heads=heads,
        attended=attended,
        keys=attended * of("num_key_value_heads", default=heads) // heads,
        layers=layers,
        decoder_layers=of("num_decoder_layers", "decoder_layers", default=layers) if is_pair else 0,
        vocabulary=of("vocab_size"),
        dropout=of("hidden_dropout_prob", "resid_pdrop", "dropout_rate", "dropout"),
        attention_dropout=of("attention_probs_dropout_prob", "attn_pdrop", "dropout_rate", "attention_dropout"),
        width=of("embedding_size", default=hidden),
        predicts_tokens="LM" in head,
    )
    of_head = _head_parameters(kind, config, shape, head, labels)
    body = _body_parameters(kind, config, shape)
    return replace(shape, parameters=body + of_head, new=0 if shape.predicts_tokens else of_head)


def _body_parameters(kind: str, config: Mapping[str, Any], shape: Shape) -> int:
    """Return the number of parameters without the head. Tests compare them with transformers' models."""
    hidden, inner, attended, keys = shape.hidden, shape.inner, shape.attended, shape.keys
    is_plain = kind in (*DECODERS, "t5")  # without biases, and with norms of one vector
    bias, norm = (0, hidden) if is_plain else (1, 2 * hidden)
    attention = 2 * (hidden + bias) * (attended + keys)
    layer = attention + 2 * norm + (2 + shape.kept.is_gated) * hidden * inner + bias * (inner + hidden)
    layer += attended + 2 * keys if kind == "qwen2" else 2 * attended // shape.heads if kind == "qwen3" else 0
    layers = int(config.get("num_hidden_groups", shape.layers))  # ALBERT's layers share their weights
    total = shape.embedded + layers * layer + shape.decoder_layers * (layer + attention + norm)
    positions, width = int(config.get("max_position_embeddings") or config.get("n_positions") or 0), shape.width
    if kind == "t5":
        return total + 2 * (norm + int(config.get("relative_attention_num_buckets", 32)) * shape.heads)
    if kind == "bart":
        return total + 2 * norm + 2 * hidden * (positions + 2)
    if is_plain:
        return total + norm
    types = 0 if kind in ("distilbert", "gpt2") else int(config.get("type_vocab_size", 2))
    projection = (width + 1) * hidden if width != hidden or kind == "albert" else 0
    return total + width * (positions + types + 2) + projection


def _head_parameters(kind: str, config: Mapping[str, Any], shape: Shape, head: str, labels: int) -> int:
    hidden, is_decoder = shape.hidden, kind in (*DECODERS, "gpt2")
    if shape.predicts_tokens:
        own = 0 if config.get("tie_word_embeddings", kind not in UNTIED) else shape.embedded
        is_plain = is_decoder or shape.decoder_layers
        return own if is_plain else own + shape.width * (hidden + 3) + shape.vocabulary
    has_pooler = kind in ("albert", "bert", "camembert", "roberta", "xlm-roberta")
    if head.endswith("AutoModel"):
        return hidden * (hidden + 1) if has_pooler else 0
    if "SequenceClassification" in head:
        return hidden * labels if is_decoder else (hidden + 1) * (hidden + labels)
    return (hidden + 1) * labels


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a training computes at once on one device."""

    rows: int
    length: int
    """Tokens of the longest row."""
    target_length: int = 0
    """Tokens of the longest row of the decoder beside an encoder."""
    on_gpu: bool = False
    is_16_bit: bool = False
    """True if matrix products are in 16 bits."""
    attention: str = "auto"
    has_fused_loss: bool = False
    """True if a kernel computes the loss of a language model without storing its scores."""
    accumulates: bool = False
    """True if the gradients of several batches are added up."""
    adapter: str = ""
    """Method: lora, qlora or frozen; empty if all weights are trained."""
    adapter_rank: int = 0
    adapter_dropout: float = 0.05
    replicas: int = 1
    """Devices that train together."""
    is_sharded: bool = False
    """True if each device holds a part of weights, gradients and states."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes of a training on one device at its peak."""

    parameters: int
    trained: int
    """Parameters with gradients."""
    weights: float
    gradients: float
    optimizer: float
    activations: float
    """What the forward pass keeps, the scores of a language model, and 16-bit copies of weights."""
    process: float
    """What is not in tensors: the program, and gaps between tensors."""
    adds: bool
    """True if gradients are kept during the forward pass."""

    @property
    def held(self) -> float:
        """Bytes that every step needs, however small its batch."""
        return self.weights + self.gradients + self.optimizer

    @property
    def peak(self) -> float:
        """Bytes at the peak. Gradients take the place of activations during a backward pass."""
        at_backward = self.gradients + self.activations if self.adds else max(self.gradients, self.activations)
        return self.process + self.weights + self.optimizer + at_backward


def estimate(shape: Shape, batch: Batch) -> Memory:
    """Return the memory of a training on one device."""
    trained, weights = shape.parameters, shape.parameters * float(SINGLE)
    if batch.adapter:
        added = batch.adapter_rank * _adapted_units(shape) if batch.adapter != "frozen" else 0
        trained, weights = added + shape.new, weights + added * SINGLE
        if batch.adapter == "qlora":
            weights -= (shape.parameters - shape.embedded) * (SINGLE - IN_4_BITS)
    shards = batch.replicas if batch.is_sharded else 1
    gradients = trained * float(SINGLE) * (1 + (batch.replicas > 1 and not batch.is_sharded))
    copies = 2.0 * (shape.parameters - shape.embedded) if batch.is_16_bit else 0.0
    kept, scores = copies + activation_bytes(shape, batch), _score_bytes(shape, batch)
    gaps = CPU_GAPS * kept + CPU_SCORE_GAPS * scores
    return Memory(
        parameters=shape.parameters,
        trained=trained,
        weights=weights / shards,
        gradients=gradients / shards,
        optimizer=trained * float(STATES) / shards,
        activations=kept + scores,
        process=CONTEXT_BYTES if batch.on_gpu else PROCESS_BYTES + gaps,
        adds=batch.accumulates,
    )


def _adapted_units(shape: Shape) -> int:
    """Return the inputs and outputs of all linear layers in the body."""
    size, ways = shape, 1 + shape.kept.is_gated
    into = (size.kept.linears - 1 - ways) * size.hidden + size.attended + ways * size.hidden + size.inner
    out = size.attended + 2 * size.keys + size.hidden + ways * size.inner + size.hidden
    return (size.layers + size.decoder_layers) * (into + out)


def activation_bytes(shape: Shape, batch: Batch) -> float:
    """Return the bytes that the layers and embeddings keep, with the temporary numbers of one layer."""
    kept, at = shape.kept, (2 if batch.on_gpu else 1) if batch.is_16_bit else 0
    number = 2 if batch.is_16_bit else SINGLE
    mask = 1 if batch.on_gpu else number
    hidden, inner, attended = kept.hidden[at], kept.inner[at], kept.attended[at]
    if shape.dropout:
        hidden += mask * kept.dropouts
        inner += kept.inner_dropouts * (mask + (0 if kept.is_gated or batch.is_16_bit else SINGLE))
    ends = SINGLE * (4 * shape.hidden + shape.inner)
    if batch.adapter == "frozen":
        return batch.rows * batch.length * float(ends)
    layer = hidden * shape.hidden + inner * shape.inner + attended * shape.attended
    if batch.adapter:
        layer += _adapter_bytes(shape, batch, mask, number)
    tokens, pairs = batch.rows * batch.length, shape.heads * _pair_bytes(shape, batch, number)
    total = tokens * (shape.layers * (layer + batch.length * pairs * _causal_share(shape, batch)) + ends)
    if shape.decoder_layers:
        targets = batch.rows * batch.target_length
        own = CROSS * (layer - inner * shape.inner) + inner * shape.inner
        seen = (batch.length + batch.target_length) * pairs
        total += targets * (shape.decoder_layers * (own + seen) + ends)
        total += tokens * shape.decoder_layers * attended / 2 * shape.attended
    return total


def _adapter_bytes(shape: Shape, batch: Batch, mask: int, number: int) -> float:
    """Return the bytes that LoRA adds to a layer: inputs of its matrices, less inputs that frozen weights do not need.

    Without a 16-bit copy for each linear layer, those that read the same input share it.
    """
    kept = shape.kept
    dropped = (SINGLE if mask > 1 else mask) + number if batch.adapter_dropout else 0
    shared = kept.linears if batch.is_16_bit else 2 if batch.on_gpu else 3
    own = kept.linears * dropped - number * shared - kept.frozen_hidden
    return own * shape.hidden + (dropped - number) * shape.inner


def _pair_bytes(shape: Shape, batch: Batch, number: int) -> float:
    """Return the bytes of each pair of tokens in a head: the weights of attention, and their dropout."""
    drops, attention = shape.attention_dropout > 0, batch.attention
    if attention == "auto":
        attention = "sdpa" if batch.on_gpu else "blockwise" if shape.kept.is_blockwise else "eager"
    if attention == "blockwise":
        return number + 2 * drops
    if attention in ("sdpa", "flash_attention_2"):  # on a CPU, PyTorch has no kernel with dropout
        return 0 if batch.on_gpu or not drops else 3 * SINGLE
    if not batch.is_16_bit:
        return SINGLE + drops * (SINGLE + (1 if batch.on_gpu else SINGLE))
    return SINGLE + number + drops * (1 if batch.on_gpu else SINGLE)


def _causal_share(shape: Shape, batch: Batch) -> float:
    """Return the share of pairs that our own attention computes for a language model without padding."""
    is_own = batch.attention == "blockwise" or (batch.attention == "auto" and not batch.on_gpu)
    if not (is_own and shape.predicts_tokens and shape.kept.is_blockwise):
        return 1.0
    blocks = math.ceil(batch.length / BLOCK_QUERIES)
    return (blocks + 1) / (2 * blocks)


def _score_bytes(shape: Shape, batch: Batch) -> float:
    """Return the bytes of a language model's scores at the start of the backward pass.

    For each token and entry of the vocabulary: the log of the softmax and two gradients, in single precision.
    """
    if not shape.predicts_tokens or batch.has_fused_loss:
        return 0.0
    tokens = batch.rows * (batch.target_length if shape.decoder_layers else batch.length)
    return float(tokens * shape.vocabulary * 3 * SINGLE)

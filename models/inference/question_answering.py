"""The span of a context that answers a question, in the form of the question-answering pipeline of Transformers 4.

A context that is longer than a window is cut in overlapping ones, and the span chosen as the evaluation of training
does: of each window's `N_BEST` likeliest starts and ends the pair with the highest sum of logits over all windows. The
score is the product of the start's and the end's probability over the tokens of all windows: of a context in one window
what the pipeline gave.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from models.loading.encoding import Encoded, Row
from models.loading.inputs import BadInputs, Rule, fields, listed, parameters, place, text, whole_number
from models.loading.loaded_model import Loaded
from training.contract.errors import InputError
from training.staging.rows.questions import Question
from training.staging.tokens.windows import Span, Windows, cut

HEAD = "AutoModelForQuestionAnswering"

WINDOW_TOKENS = 384
STRIDE_TOKENS = 128
N_BEST = 20
ANSWER_TOKENS = 30
ROWS_A_FORWARD = 32
"""Bounds the memory of a context of thousands of windows."""
FEW_WINDOWS = 32
"""Up to here neighbouring windows may share any part of the context; beyond, each must be `least_step` on."""

PARAMETERS: Mapping[str, Rule] = {
    "top_k": whole_number(1, N_BEST),
    "max_answer_len": whole_number(1, 1_000),
    "max_seq_len": whole_number(8, 100_000),
    "doc_stride": whole_number(1, 100_000),
}
"""All but `top_k`, which makes a list of the answer, in tokens; `doc_stride` is what neighbouring windows share."""


@dataclass(frozen=True, slots=True)
class Example:
    """What is asked, and of which text."""

    where: str
    """How messages call it."""
    question: str
    context: str
    options: Mapping[str, Any] = field(default_factory=dict)


class Cut(NamedTuple):
    """Where the windows of a question hold its context."""

    spans: list[Span]
    """Characters of the context that each of its tokens covers, (first, one past the last)."""
    context_at: list[int]
    """Of each window: where the context begins in it, tokens."""
    first_token: list[int]
    """Of each window: which token of the context that is."""
    tokens: list[int]
    """Of each window: tokens of the context in it."""


class Found(NamedTuple):
    """A span of the context, the first best."""

    total: float
    """Sum of the two logits."""
    first: int
    last: int
    """Tokens of the context."""


def reads(architecture: str) -> bool:
    """Tell whether a saved model is one."""
    return "ForQuestionAnswering" in architecture


def encode_may_refuse(loaded: Loaded) -> bool:
    """Tell whether `encode` refuses some inputs that `read` lets pass."""
    return True


def read(loaded: Loaded, inputs: object, given: Mapping[str, Any] | None) -> list[Example]:
    """Return the questions: each an object with `question` and `context`."""
    options = parameters(given, PARAMETERS)
    asked = listed(inputs)
    return [_example(place(at, len(asked)), each, options) for at, each in enumerate(asked)]


def _example(where: str, value: object, options: Mapping[str, Any]) -> Example:
    found = fields(where, value, needed=("question", "context"))
    # Without leading blanks, as in training: SQuAD has questions with hundreds of them.
    question = text(f"{where}.question", found["question"], may_be_blank=False).lstrip()
    return Example(where, question, text(f"{where}.context", found["context"], may_be_blank=False), options)


def encode(loaded: Loaded, examples: Sequence[Example]) -> list[Encoded]:
    """Cut each question's context in windows."""
    return [_encoded(loaded, example) for example in examples]


def _encoded(loaded: Loaded, example: Example) -> Encoded:
    asked = Question(id="", context=example.context, question=example.question, answers=())
    length = _window_tokens(loaded, example.options)
    stride = example.options.get("doc_stride", min(STRIDE_TOKENS, length // 3))
    _check_step(loaded, example, length, stride)
    try:
        windows = cut(loaded.tokenizer, [asked], max_length=length, doc_stride=stride)
    except InputError as error:
        raise BadInputs(f"{example.where}: {str(error).replace(chr(39) * 2 + ' ', '')}") from error
    places = Cut(windows.spans[0], windows.context_at, windows.first_token, windows.tokens)
    return Encoded(example, tuple(_rows(loaded, windows)), places)


def least_step(window_tokens: int) -> int:
    """Return how many tokens of a long context each window must be on from the one before.

    With fewer, a body of 6 MiB becomes millions of windows, and gigabytes before the model has seen anything.
    """
    return max(16, window_tokens // 8)


def _check_step(loaded: Loaded, example: Example, length: int, stride: int) -> None:
    question = loaded.backend.encode(example.question, add_special_tokens=False)
    room = length - len(question.ids) - loaded.backend.num_special_tokens_to_add(True)
    step, least = room - stride, least_step(length)
    if step <= 0 or step >= least:  # where nothing is left, `cut` says so
        return
    context = loaded.tokenizer(example.context, add_special_tokens=False, verbose=False)
    windows = math.ceil((len(context["input_ids"]) - stride) / step)
    if windows > FEW_WINDOWS:
        raise BadInputs(
            f"{example.where}: doc_stride {stride} cuts the context in {windows:,} windows that are {step} of {length} "
            f"tokens apart: more than {FEW_WINDOWS} must be {least} or more apart, so make doc_stride smaller or "
            "max_seq_len larger"
        )


def _window_tokens(loaded: Loaded, options: Mapping[str, Any]) -> int:
    """Return how long windows are: as asked for, or as the model was trained, and never more than it takes."""
    limit = loaded.max_length or WINDOW_TOKENS
    wanted = int(options.get("max_seq_len", limit if loaded.is_cut else WINDOW_TOKENS))
    return min(wanted, loaded.max_length or wanted)


def _rows(loaded: Loaded, windows: Windows) -> Iterator[Row]:
    types = windows.token_type_ids if loaded.takes_types else None
    for at, ids in enumerate(windows.input_ids):
        yield Row(ids, None if types is None else types[at])


def run(loaded: Loaded, encoded: Sequence[Encoded]) -> list[Any]:
    """Return `{"answer", "score", "start", "end"}` for each, or with `top_k` a list of them.

    Start and end are characters of the context; a context in which no span is possible gives an empty answer.
    """
    rows = [row for each in encoded for row in each.rows]
    starts, ends = _logits(loaded, rows)
    answers, at = [], 0
    for each in encoded:
        own = slice(at, at + len(each.rows))
        answers.append(_answer(each, starts[own], ends[own]))
        at = own.stop
    return answers


def _logits(loaded: Loaded, rows: Sequence[Row]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the logits of start and end, one array a row, without padding."""
    starts: list[np.ndarray] = []
    ends: list[np.ndarray] = []
    for first in range(0, len(rows), ROWS_A_FORWARD):
        part = rows[first : first + ROWS_A_FORWARD]
        made = loaded.forward(part)
        for logits, into in ((made.start_logits, starts), (made.end_logits, ends)):
            found = logits.to(torch.float64).cpu().numpy()
            width = found.shape[1]
            for line, row in zip(found, part, strict=True):
                into.append(line[width - len(row.ids) :] if loaded.padding.on_left else line[: len(row.ids)])
    return starts, ends


def _answer(asked: Encoded, starts: Sequence[np.ndarray], ends: Sequence[np.ndarray]) -> Any:
    places, options = asked.detail, asked.example.options
    own = [slice(at, at + tokens) for at, tokens in zip(places.context_at, places.tokens, strict=True)]
    starts = [line[part] for line, part in zip(starts, own, strict=True)]
    ends = [line[part] for line, part in zip(ends, own, strict=True)]
    found = best_spans(starts, ends, places.first_token, options.get("max_answer_len", ANSWER_TOKENS))
    with np.errstate(invalid="ignore"):  # of broken weights; whoever asked is told
        total = float(np.logaddexp.reduce(np.concatenate(starts)) + np.logaddexp.reduce(np.concatenate(ends)))
    told = [_told(asked.example.context, places.spans, each, total) for each in found[: options.get("top_k", 1)]]
    if not told and math.isnan(total):  # empty too, but no answer
        told = [{"answer": "", "score": total, "start": 0, "end": 0}]
    if "top_k" in options:
        return told
    return told[0] if told else {"answer": "", "score": 0.0, "start": 0, "end": 0}


def best_spans(
    starts: Sequence[np.ndarray], ends: Sequence[np.ndarray], first_token: Sequence[int], most_tokens: int
) -> list[Found]:
    """Return the possible spans, the best first, each once; the arrays hold the logits of the context alone."""
    best: dict[tuple[int, int], float] = {}
    for start, end, offset in zip(starts, ends, first_token, strict=True):
        firsts, lasts = (np.argsort(-logits, kind="stable")[:N_BEST] for logits in (start, end))
        for first in firsts.tolist():
            for last in lasts.tolist():
                if 0 <= last - first < most_tokens:
                    span, total = (first + offset, last + offset), float(start[first] + end[last])
                    if total > best.get(span, -np.inf):
                        best[span] = total
    ordered = sorted(best.items(), key=lambda item: -item[1])
    return [Found(total, *span) for span, total in ordered]


def _told(context: str, spans: Sequence[Span], found: Found, total: float) -> dict[str, Any]:
    start, end = spans[found.first][0], spans[found.last][1]
    piece = context[start:end]
    start, end = start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())
    return {
        "answer": context[start : max(start, end)],
        "score": float(np.exp(found.total - total)),
        "start": start,
        "end": max(start, end),
    }

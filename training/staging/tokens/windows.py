"""Questions with their contexts as windows of tokens: the question whole in each, the context cut and overlapping.

The windows are those of `tokenizer(..., truncation="only_second", stride=..., return_overflowing_tokens=True)`, the way
of Hugging Face's `run_qa.py`. They are cut here, from the tokens of the whole context, because what a window holds of
an answer shows in the tokens of the whole: `run_qa.py` looks at the window alone and labels an answer that begins in
the window's last word with the padding behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from training.contract.errors import InputError
from training.staging.rows.examples import shown
from training.staging.rows.questions import Question

QUESTIONS_A_BATCH = 500

Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Windows of many questions, one list a column; then what holds for each question."""

    input_ids: list[list[int]] = field(default_factory=list)
    """Tokens of each window, special tokens included, without padding."""
    token_type_ids: list[list[int]] | None
    """Which of the two texts each token belongs to; None where the model takes none."""
    start_position: list[int] = field(default_factory=list)
    """Where the first answer begins in the window, tokens; the CLS token where the window does not hold it."""
    end_position: list[int] = field(default_factory=list)
    """The answer's last token in the window; the CLS token where the window does not hold it."""
    question: list[int] = field(default_factory=list)
    """Number of the window's question, from 0."""
    context_at: list[int] = field(default_factory=list)
    """Where the context begins in the window, tokens."""
    first_token: list[int] = field(default_factory=list)
    """Which token of the whole context that is, from 0."""
    tokens: list[int] = field(default_factory=list)
    """Tokens of the context that the window holds."""
    spans: list[list[Span]] = field(default_factory=list)
    """Of each question: the characters of its context that each token covers, (first, one past the last)."""


@dataclass(frozen=True, kw_only=True)
class _Whole:
    """A question with its whole context, however long."""

    ids: list[int]
    types: list[int]
    context: Span
    """Tokens of the context: (first, one past the last)."""
    spans: list[Span]
    """Characters that each token of the context covers."""
    cls: int
    """Where the CLS token stands."""


def cut(tokenizer: Any, questions: Sequence[Question], *, max_length: int, doc_stride: int) -> Windows:
    """Return the windows of the questions, in order; neighbours share `doc_stride` tokens of the context."""
    windows = Windows(token_type_ids=[] if "token_type_ids" in tokenizer.model_input_names else None)
    for start in range(0, len(questions), QUESTIONS_A_BATCH):
        batch = questions[start : start + QUESTIONS_A_BATCH]
        for number, whole in enumerate(_wholes(tokenizer, batch), start=start):
            windows.spans.append(whole.spans)
            answer = answer_tokens(questions[number], whole.spans)
            for part in _parts(whole, questions[number], max_length, doc_stride):
                _append(windows, number, whole, part, answer)
    return windows


def answer_tokens(question: Question, spans: Sequence[Span]) -> Span | None:
    """Return the first and the last token that hold a part of the first answer; None where there is none.

    Blanks around the answer are set aside: tokenizers that count a blank to the word behind it (SentencePiece) would
    otherwise bring in that word.
    """
    if not question.answers:
        return None
    answer = question.answers[0]
    start = answer.start + len(answer.text) - len(answer.text.lstrip())
    end = answer.start + len(answer.text.rstrip())
    holding = [at for at, (first, last) in enumerate(spans) if first < end and last > start]
    return (holding[0], holding[-1]) if holding else None


def _wholes(tokenizer: Any, questions: Sequence[Question]) -> Iterator[_Whole]:
    """Tokenise; the question comes first, but where the tokenizer pads on the left (XLNet) the context does."""
    asked, contexts = [each.question for each in questions], [each.context for each in questions]
    context_is_second = tokenizer.padding_side == "right"
    texts = (asked, contexts) if context_is_second else (contexts, asked)
    encoded = tokenizer(*texts, padding=False, truncation=False, verbose=False)
    for question, encoding in zip(questions, encoded.encodings, strict=True):
        yield _whole(tokenizer, question, encoding, int(context_is_second))


def _whole(tokenizer: Any, question: Question, encoding: Any, sequence: int) -> _Whole:
    ids, sequences = encoding.ids, encoding.sequence_ids
    places = [at for at, each in enumerate(sequences) if each == sequence]
    if not places:
        raise InputError(f"question {shown(question.id)}: the tokenizer finds no token in its context")
    context = (places[0], places[-1] + 1)
    # An id alone does not make it the CLS token: a text may spell "[CLS]".
    special = [at for at, each in enumerate(sequences) if each is None and ids[at] == tokenizer.cls_token_id]
    cls = special[0] if special else 0
    if cls in range(*context):
        raise InputError(
            f"question {shown(question.id)}: the tokenizer finds no token in its text and adds no CLS token, "
            "so that nothing can stand for an answer outside a window"
        )
    spans = [tuple(each) for each in encoding.offsets[slice(*context)]]
    return _Whole(ids=ids, types=encoding.type_ids, context=context, spans=spans, cls=cls)


def _parts(whole: _Whole, question: Question, max_length: int, doc_stride: int) -> Iterator[Span]:
    """Yield the tokens of the context, from 0, that each window takes: (first, one past the last)."""
    tokens = len(whole.spans)
    around = len(whole.ids) - tokens
    room = max_length - around
    if tokens <= room:
        yield 0, tokens
        return
    if room <= doc_stride:
        raise InputError(
            f"question {shown(question.id)} takes {around} of the {max_length} tokens of max_length, which leaves "
            f"{max(room, 0)} for its context of {tokens}; doc_stride is {doc_stride} and must be smaller than that"
        )
    for first in range(0, tokens - doc_stride, room - doc_stride):
        yield first, min(first + room, tokens)


def _append(windows: Windows, number: int, whole: _Whole, part: Span, answer: Span | None) -> None:
    first, last = part
    before, after = whole.context

    def window_of(values: list[int]) -> list[int]:
        return values[:before] + values[before + first : before + last] + values[after:]

    cls = whole.cls if whole.cls < before else whole.cls - len(whole.spans) + (last - first)
    holds = answer is not None and first <= answer[0] and answer[1] < last
    windows.input_ids.append(window_of(whole.ids))
    if windows.token_type_ids is not None:
        windows.token_type_ids.append(window_of(whole.types))
    windows.start_position.append(before + answer[0] - first if holds and answer else cls)
    windows.end_position.append(before + answer[1] - first if holds and answer else cls)
    windows.question.append(number)
    windows.context_at.append(before)
    windows.first_token.append(first)
    windows.tokens.append(last - first)

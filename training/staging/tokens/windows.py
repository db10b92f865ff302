"""Cut questions and contexts into windows of tokens: the whole question and a part of the context.

The windows equal the result of `tokenizer(..., truncation="only_second", stride=..., return_overflowing_tokens=True)`,
which Hugging Face's `run_qa.py` uses. Here they are cut from the tokens of the whole context, because only the whole
context shows whether a window contains a complete answer. `run_qa.py` looks at each window separately: if an answer
begins in the last word of a window, its end is placed in the padding after that word.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from training.contract.errors import InputError, short_text
from training.staging.rows.questions import Question

if TYPE_CHECKING:
    import numpy as np

Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Windows of many questions, one list per column, and the spans of each question."""

    input_ids: list[array[int]] = field(default_factory=list)
    """Tokens of each window, special tokens included, without padding."""
    token_type_ids: list[array[int]] | None
    """Index of the text (0 or 1) to which each token belongs; None if the model uses no types."""
    start_position: list[int] = field(default_factory=list)
    """Index of the first answer's first token in the window; the CLS token's index if the answer is not in it."""
    end_position: list[int] = field(default_factory=list)
    """Index of the first answer's last token in the window; the CLS token's index if the answer is not in it."""
    question: list[int] = field(default_factory=list)
    """Number of the window's question among these questions, from 0."""
    context_at: list[int] = field(default_factory=list)
    """Index of the context's first token in the window."""
    first_token: list[int] = field(default_factory=list)
    """Index of that first token in the whole context, from 0."""
    tokens: list[int] = field(default_factory=list)
    """Number of context tokens in the window."""
    spans: list[np.ndarray] = field(default_factory=list)
    """For each question, the characters that each token of its context covers: (first, one past the last), int32,
    [context tokens, 2]."""


@dataclass(frozen=True, kw_only=True)
class _EncodedQuestion:
    """Tokens of a question and its whole context, without truncation."""

    ids: array[int]
    types: array[int]
    context: Span
    """Indexes of the context's tokens: (first, one past the last)."""
    spans: np.ndarray
    """Characters that each token of the context covers, int32, [context tokens, 2]."""
    cls: int
    """Index of the CLS token."""


class WindowCutter:
    """Cuts the questions of one channel into windows, batch by batch.

    Neighbouring windows share `doc_stride` tokens of the context.
    """

    def __init__(self, tokenizer: Any, *, max_length: int, doc_stride: int) -> None:
        self._tokenizer, self._max_length, self._doc_stride = tokenizer, max_length, doc_stride

    def cut(self, questions: Sequence[Question]) -> Windows:
        """Return the windows of the next questions, in order, with the questions numbered from 0."""
        windows = Windows(token_type_ids=[] if "token_type_ids" in self._tokenizer.model_input_names else None)
        for number, encoded in enumerate(_encode_questions(self._tokenizer, questions)):
            windows.spans.append(encoded.spans)
            answer = answer_tokens(questions[number], encoded.spans)
            for part in _parts(encoded, questions[number], self._max_length, self._doc_stride):
                _append(windows, number, encoded, part, answer)
        return windows


def answer_tokens(question: Question, spans: np.ndarray) -> Span | None:
    """Return the indexes of the first and last token that overlap the first answer, or None.

    Blanks around the answer are ignored. Otherwise a tokenizer that joins a blank to the following word, such as
    SentencePiece, would include that word.
    """
    if not question.answers:
        return None
    answer = question.answers[0]
    start = answer.start + len(answer.text) - len(answer.text.lstrip())
    end = answer.start + len(answer.text.rstrip())
    [overlapping] = ((spans[:, 0] < end) & (spans[:, 1] > start)).nonzero()
    return (int(overlapping[0]), int(overlapping[-1])) if overlapping.size else None


def _encode_questions(tokenizer: Any, questions: Sequence[Question]) -> Iterator[_EncodedQuestion]:
    """Yield the tokens of each question and its context.

    The question comes first, unless the tokenizer pads on the left (XLNet).
    """
    question_texts, contexts = [each.question for each in questions], [each.context for each in questions]
    context_is_second = tokenizer.padding_side == "right"
    texts = (question_texts, contexts) if context_is_second else (contexts, question_texts)
    batch = tokenizer(*texts, padding=False, truncation=False, verbose=False)
    for question, encoding in zip(questions, batch.encodings, strict=True):
        yield _encode_question(tokenizer, question, encoding, int(context_is_second))


def _encode_question(tokenizer: Any, question: Question, encoding: Any, sequence: int) -> _EncodedQuestion:
    import numpy as np

    ids, sequences = encoding.ids, encoding.sequence_ids
    indexes = [index for index, each in enumerate(sequences) if each == sequence]
    if not indexes:
        raise InputError(f"question {short_text(question.id)}: its context has no tokens")
    context = (indexes[0], indexes[-1] + 1)
    # The id alone does not identify the CLS token, because a text may contain "[CLS]".
    special = [index for index, each in enumerate(sequences) if each is None and ids[index] == tokenizer.cls_token_id]
    cls = special[0] if special else 0
    if cls in range(*context):
        raise InputError(
            f"question {short_text(question.id)}: its text has no tokens and the tokenizer adds no CLS token, "
            "so no token can mark an answer outside a window"
        )
    spans = np.array(encoding.offsets[slice(*context)], dtype=np.int32)
    types = array("b", encoding.type_ids)
    return _EncodedQuestion(ids=array("i", ids), types=types, context=context, spans=spans, cls=cls)


def _parts(encoded: _EncodedQuestion, question: Question, max_length: int, doc_stride: int) -> Iterator[Span]:
    """Yield the range of context tokens in each window: (first from 0, one past the last)."""
    tokens = len(encoded.spans)
    other_tokens = len(encoded.ids) - tokens
    room = max_length - other_tokens
    if tokens <= room:
        yield 0, tokens
        return
    if room <= doc_stride:
        raise InputError(
            f"question {short_text(question.id)} uses {other_tokens} of the {max_length} tokens of max_length, which "
            f"leaves {max(room, 0)} for its context of {tokens} tokens; doc_stride is {doc_stride} and must be "
            "smaller; increase max_length or reduce doc_stride"
        )
    for first in range(0, tokens - doc_stride, room - doc_stride):
        yield first, min(first + room, tokens)


def _append(windows: Windows, number: int, encoded: _EncodedQuestion, part: Span, answer: Span | None) -> None:
    first, last = part
    before, after = encoded.context

    def window_of(values: array[int]) -> array[int]:
        return values[:before] + values[before + first : before + last] + values[after:]

    cls = encoded.cls if encoded.cls < before else encoded.cls - len(encoded.spans) + (last - first)
    has_answer = answer is not None and first <= answer[0] and answer[1] < last
    windows.input_ids.append(window_of(encoded.ids))
    if windows.token_type_ids is not None:
        windows.token_type_ids.append(window_of(encoded.types))
    windows.start_position.append(before + answer[0] - first if has_answer and answer else cls)
    windows.end_position.append(before + answer[1] - first if has_answer and answer else cls)
    windows.question.append(number)
    windows.context_at.append(before)
    windows.first_token.append(first)
    windows.tokens.append(last - first)

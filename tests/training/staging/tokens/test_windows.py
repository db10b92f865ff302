"""Windows of questions equal the tokenizer's own, and labels mark the answer or the CLS token."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.staging.fast_tokenizers import KINDS
from tests.support.staging.tables import MODEL
from training.contract.errors import InputError
from training.staging.formats.json_rows import squad_rows
from training.staging.formats.text import DEFAULT_FORMAT
from training.staging.models.model_files import locate
from training.staging.rows.questions import Answer, Question, read_questions
from training.staging.sources.sources import Table
from training.staging.tokens.tokenizing import load_tokenizer
from training.staging.tokens.windows import WindowCutter, Windows, answer_tokens

kind_of = cache(lambda name: KINDS[name]())
each_kind = pytest.mark.parametrize("kind", KINDS)
# Letters, various blanks, characters that BERT's normaliser removes, and characters of several bytes or code points.
TEXTS = st.text(st.sampled_from("DenvrBocsé.' \n\t\u00a0\u200b\u0301😀日ﬁ½"), min_size=1, max_size=80)
IGNORED_CHARACTERS = frozenset("\n\t\u00a0\u200b\u0301 ")
"""Characters for which a tokenizer may return no token."""
NO_CLS = "without_special_tokens"


@st.composite
def questions_with_answer(draw: st.DrawFn) -> Question:
    context, question = draw(TEXTS.filter(lambda text: not IGNORED_CHARACTERS.issuperset(text))), draw(TEXTS)
    start = draw(st.integers(0, len(context) - 1))
    end = draw(st.integers(start + 1, len(context)))
    answers = (Answer(text=context[start:end], start=start),) if context[start:end].strip() else ()
    return Question(id="q", context=context, question=question.lstrip(), answers=answers)


def question_of(context: str, answer: str, question: str = "Who won?") -> Question:
    return Question(
        id="q", context=context, question=question, answers=(Answer(text=answer, start=context.index(answer)),)
    )


def cut_windows(tokenizer: Any, questions: Sequence[Question], *, max_length: int, doc_stride: int) -> Windows:
    return WindowCutter(tokenizer, max_length=max_length, doc_stride=doc_stride).cut(questions)


def length_for(tokenizer: Any, question: Question, room: int) -> int:
    """Return the length of a window with room for `room` tokens of the context."""
    around = cut_windows(tokenizer, [question], max_length=10_000, doc_stride=0)
    return len(around.input_ids[0]) - around.tokens[0] + room


def windows_of(tokenizer: Any, question: Question, room: int, doc_stride: int) -> Windows:
    """Return the windows if each has room for `room` tokens of the context."""
    return cut_windows(tokenizer, [question], max_length=length_for(tokenizer, question, room), doc_stride=doc_stride)


def decoded(question: Question, windows: Windows, at: int) -> str | None:
    """Return the text between a window's labels, or None if they are outside the context."""
    offset = windows.first_token[at] - windows.context_at[at]
    first, last = windows.start_position[at] + offset, windows.end_position[at] + offset
    context = range(windows.first_token[at], windows.first_token[at] + windows.tokens[at])
    if first not in context:
        assert first == last
        return None
    assert last in context
    spans = windows.spans[windows.question[at]]
    return question.context[spans[first][0] : spans[last][1]]


@each_kind
@given(question=questions_with_answer(), room=st.integers(3, 20), data=st.data())
@settings(deadline=None)
def test_the_labelled_span_is_the_answer_or_the_answer_is_not_in_the_window(
    kind: str, question: Question, room: int, data: st.DataObject
) -> None:
    assume(kind != NO_CLS or not IGNORED_CHARACTERS.issuperset(question.question))
    doc_stride = data.draw(st.integers(0, room - 1))
    windows = windows_of(kind_of(kind), question, room, doc_stride)
    answer = answer_tokens(question, windows.spans[0])
    texts = [decoded(question, windows, at) for at in range(len(windows.input_ids))]
    for at, text in enumerate(texts):
        first, last = windows.first_token[at], windows.first_token[at] + windows.tokens[at]
        assert (text is not None) == (answer is not None and first <= answer[0] and answer[1] < last)
    if answer is None:
        return
    _check_tokens_of_answer(question, windows, answer)
    spans, expected = windows.spans[0], question.answers[0].text.strip()
    begin = question.context.index(expected, question.answers[0].start)
    if spans[answer[0]][0] == begin and spans[answer[1]][1] == begin + len(expected):
        assert {text for text in texts if text is not None} <= {expected}
    if answer[1] - answer[0] <= doc_stride:
        assert any(text is not None for text in texts), "an answer no longer than the overlap is whole in a window"


def _check_tokens_of_answer(question: Question, windows: Windows, answer: tuple[int, int]) -> None:
    """The labelled tokens are exactly those that cover a character of the answer, blanks at its ends left out.

    A blank is at an end if no token covers what is before it, such as an accent that the tokenizer drops.
    """
    start = question.answers[0].start
    characters = {at for at in range(start, start + len(question.answers[0].text)) if question.context[at].strip()}
    covering = [at for at, span in enumerate(windows.spans[0]) if characters & set(range(*span))]
    if covering:
        labelled = [at for at in range(answer[0], answer[1] + 1) if _text_of(question, windows.spans[0][at]).strip()]
        assert (labelled[0], labelled[-1]) == (covering[0], covering[-1])


def _text_of(question: Question, span: Sequence[int]) -> str:
    return question.context[span[0] : span[1]]


@each_kind
@given(question=questions_with_answer(), room=st.integers(3, 20), data=st.data())
@settings(deadline=None)
def test_windows_equal_those_of_the_tokenizer(kind: str, question: Question, room: int, data: st.DataObject) -> None:
    assume(kind != NO_CLS or not IGNORED_CHARACTERS.issuperset(question.question))
    tokenizer, doc_stride = kind_of(kind), data.draw(st.integers(0, room - 1))
    windows = windows_of(tokenizer, question, room, doc_stride)
    second = tokenizer.padding_side == "right"
    own = tokenizer(
        *(([question.question], [question.context]) if second else ([question.context], [question.question])),
        truncation="only_second" if second else "only_first",
        max_length=length_for(tokenizer, question, room),
        stride=doc_stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    assert list(map(list, windows.input_ids)) == own["input_ids"]
    if windows.token_type_ids is not None:
        assert list(map(list, windows.token_type_ids)) == own["token_type_ids"]
    for at, offsets in enumerate(own["offset_mapping"]):
        context = range(windows.context_at[at], windows.context_at[at] + windows.tokens[at])
        assert [index for index, each in enumerate(own.sequence_ids(at)) if each == int(second)] == list(context)
        first = windows.first_token[at]
        assert windows.spans[0][first : first + windows.tokens[at]].tolist() == [
            list(offsets[index]) for index in context
        ]


def minilm() -> Any:
    return load_tokenizer(locate(MODEL), 384)


def test_windows_worked_out_by_hand() -> None:
    # [CLS] who won ? [SEP] the denver broncos won [SEP]: four tokens of the context and six others.
    question = question_of("The Denver Broncos won", "Denver Broncos")
    windows = cut_windows(minilm(), [question], max_length=9, doc_stride=2)
    assert [len(ids) for ids in windows.input_ids] == [9, 9]
    assert [windows.first_token, windows.tokens, windows.context_at] == [[0, 1], [3, 3], [5, 5]]
    assert [windows.start_position, windows.end_position] == [[6, 5], [7, 6]]
    assert windows.token_type_ids == [array("b", [0, 0, 0, 0, 0, 1, 1, 1, 1])] * 2
    assert [spans.tolist() for spans in windows.spans] == [[[0, 3], [4, 10], [11, 18], [19, 22]]]


def test_a_stride_as_long_as_the_window_is_rejected() -> None:
    question = question_of("The Denver Broncos won and won", "Broncos")
    with pytest.raises(InputError) as caught:
        cut_windows(minilm(), [question], max_length=8, doc_stride=3)
    assert str(caught.value) == (
        "question 'q' uses 6 of the 8 tokens of max_length, which leaves 2 for its context of 6 tokens; "
        "doc_stride is 3 and must be smaller; increase max_length or reduce doc_stride"
    )
    assert len(cut_windows(minilm(), [question], max_length=12, doc_stride=100).input_ids) == 1


def test_windows_of_real_data_contain_the_answers(shared: Path) -> None:
    path = shared / "data" / "squad-v1.1-train-composite15000.json.gz"
    questions = list(read_questions(Table(name="squad", unit="question", rows=squad_rows(path, DEFAULT_FORMAT))))[::40]
    windows = cut_windows(minilm(), questions, max_length=192, doc_stride=64)
    answered, exact = set(), 0
    for at, number in enumerate(windows.question):
        text = decoded(questions[number], windows, at)
        if text is not None:
            answer = questions[number].answers[0].text
            answered.add(number)
            exact += text == answer
            # 7 of 1817 answers are a part of a word or number. The best possible label is then the whole token.
            assert answer in text
            assert len(text.split()) == len(answer.split())
    assert exact > 0.98 * len(answered)
    assert len(windows.input_ids) > len(questions)
    assert answered == set(range(len(questions)))


def test_a_context_without_tokens_is_an_error() -> None:
    with pytest.raises(InputError, match="question 'q': its context has no tokens"):
        cut_windows(
            kind_of("wordpiece"),
            [Question(id="q", context="\u200b", question="?", answers=())],
            max_length=9,
            doc_stride=2,
        )


def test_a_question_without_tokens_requires_a_cls_token() -> None:
    blank = Question(id="q", context="The Broncos", question="", answers=())
    with pytest.raises(InputError, match="question 'q': its text has no tokens and the tokenizer adds no CLS"):
        cut_windows(kind_of(NO_CLS), [blank], max_length=9, doc_stride=2)
    assert cut_windows(kind_of("byte_level"), [blank], max_length=64, doc_stride=2).start_position == [0]

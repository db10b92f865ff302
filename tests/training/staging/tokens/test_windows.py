"""Windows of questions equal the tokenizer's own, and labels mark the answer or the CLS token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.staging.fast_tokenizers import KINDS
from tests.support.staging.tables import MODEL
from training.job.processes.reporting import BadData
from training.job.tasks import TASKS, Row
from training.job.tasks.question_answering import Answer
from training.staging.models.model_files import locate
from training.staging.tokens.tokenizing import load_tokenizer

kind_of = cache(lambda name: KINDS[name]())
each_kind = pytest.mark.parametrize("kind", KINDS)
# Letters, various blanks, characters that BERT's normaliser removes, and characters of several bytes or code points.
TEXTS = st.text(st.sampled_from("DenvrBocsé.' \n\t\u00a0\u200b\u0301😀日ﬁ½"), min_size=1, max_size=80)
IGNORED_CHARACTERS = frozenset("\n\t\u00a0\u200b\u0301 ")
"""Characters for which a tokenizer may return no token."""
NO_CLS = "without_special_tokens"


@st.composite
def questions_with_answer(draw: st.DrawFn) -> Row:
    context, question = draw(TEXTS.filter(lambda text: not IGNORED_CHARACTERS.issuperset(text))), draw(TEXTS)
    start = draw(st.integers(0, len(context) - 1))
    end = draw(st.integers(start + 1, len(context)))
    answers = (Answer(context[start:end], start),) if context[start:end].strip() else ()
    return Row(1, (context, question.lstrip()), id="q", detail=answers)


def question_of(context: str, answer: str, question: str = "Who won?") -> Row:
    return Row(1, (context, question), id="q", detail=(Answer(answer, context.index(answer)),))


Columns = dict[str, Any]


def cut_windows(tokenizer: Any, questions: Sequence[Row], *, max_length: int, doc_stride: int) -> Columns:
    """Return the columns of the channel and of the files for scoring, as lists."""
    options = {"max_length": max_length, "doc_stride": doc_stride}
    encoded = TASKS["question-answering"].encoder(tokenizer, options, True)(questions, [()] * len(questions))
    columns = dict(encoded.columns)
    for table in (encoded.tables or {}).values():
        columns |= table
    return {name: column.to_pylist() for name, column in columns.items()}


def length_for(tokenizer: Any, question: Row, room: int) -> int:
    """Return the length of a window with room for `room` tokens of the context."""
    around = cut_windows(tokenizer, [question], max_length=10_000, doc_stride=0)
    return int(len(around["input_ids"][0]) - around["tokens"][0] + room)


def windows_of(tokenizer: Any, question: Row, room: int, doc_stride: int) -> Columns:
    """Return the windows if each has room for `room` tokens of the context."""
    return cut_windows(tokenizer, [question], max_length=length_for(tokenizer, question, room), doc_stride=doc_stride)


@each_kind
@given(question=questions_with_answer(), room=st.integers(3, 20), data=st.data())
@settings(deadline=None)
def test_windows_equal_those_of_the_tokenizer(kind: str, question: Row, room: int, data: st.DataObject) -> None:
    assume(kind != NO_CLS or not IGNORED_CHARACTERS.issuperset(question.texts[1]))
    tokenizer, doc_stride = kind_of(kind), data.draw(st.integers(0, room - 1))
    windows = windows_of(tokenizer, question, room, doc_stride)
    second = tokenizer.padding_side == "right"
    own = tokenizer(
        *(([question.texts[1]], [question.texts[0]]) if second else ([question.texts[0]], [question.texts[1]])),
        truncation="only_second" if second else "only_first",
        max_length=length_for(tokenizer, question, room),
        stride=doc_stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    assert windows["input_ids"] == own["input_ids"]
    if "token_type_ids" in windows:
        assert windows["token_type_ids"] == own["token_type_ids"]
    spans = [list(each) for each in zip(windows["token_starts"][0], windows["token_ends"][0], strict=True)]
    for at, offsets in enumerate(own["offset_mapping"]):
        context = range(windows["context_at"][at], windows["context_at"][at] + windows["tokens"][at])
        assert [index for index, each in enumerate(own.sequence_ids(at)) if each == int(second)] == list(context)
        first = windows["first_token"][at]
        assert spans[first : first + windows["tokens"][at]] == [list(offsets[index]) for index in context]


def minilm() -> Any:
    return load_tokenizer(locate(MODEL), 384)


def test_windows_worked_out_by_hand() -> None:
    # [CLS] who won ? [SEP] the denver broncos won [SEP]: four tokens of the context and six others.
    question = question_of("The Denver Broncos won", "Denver Broncos")
    windows = cut_windows(minilm(), [question], max_length=9, doc_stride=2)
    assert [len(ids) for ids in windows["input_ids"]] == [9, 9]
    assert [windows["first_token"], windows["tokens"], windows["context_at"]] == [[0, 1], [3, 3], [5, 5]]
    assert [windows["start_position"], windows["end_position"]] == [[6, 5], [7, 6]]
    assert windows["token_type_ids"] == [[0, 0, 0, 0, 0, 1, 1, 1, 1]] * 2
    assert (windows["token_starts"], windows["token_ends"]) == ([[0, 4, 11, 19]], [[3, 10, 18, 22]])


def test_a_stride_as_long_as_the_window_is_rejected() -> None:
    question = question_of("The Denver Broncos won and won", "Broncos")
    with pytest.raises(BadData) as caught:
        cut_windows(minilm(), [question], max_length=8, doc_stride=3)
    assert str(caught.value) == (
        "question 'q': the question takes 6 of the 8 tokens of max_length, which leaves 2 for the 6 of its context; "
        "doc_stride 3 must be below 2; increase max_length or reduce doc_stride"
    )
    assert len(cut_windows(minilm(), [question], max_length=12, doc_stride=100)["input_ids"]) == 1


def test_a_question_without_tokens_requires_a_cls_token() -> None:
    blank = Row(1, ("The Broncos", ""), id="q", detail=())
    with pytest.raises(BadData, match="question 'q': its text has no tokens and the tokenizer adds no CLS"):
        cut_windows(kind_of(NO_CLS), [blank], max_length=9, doc_stride=2)
    assert cut_windows(kind_of("byte_level"), [blank], max_length=64, doc_stride=2)["start_position"] == [0]

"""Questions of a validation channel: their contexts, their right answers, and the window of each row."""

import json
from dataclasses import dataclass
from typing import List

import numpy as np
import pyarrow as pa

from data.channels import METADATA, Channel
from data.columns import read_columns, read_texts
from reporting.errors import BadData
from tasks.answer_spans import AnswerOptions, Windows, options_of, stripped

QUESTIONS = "questions.parquet"
WINDOWS = "windows.parquet"


@dataclass(frozen=True)
class Questions:
    """Data for scoring. Every list has one entry per question."""

    ids: List[str]
    contexts: List[str]
    references: List[List[str]]
    """Right answers."""
    token_starts: List[np.ndarray]
    """First character of each context token."""
    token_ends: List[np.ndarray]
    """One past the last character of each context token."""
    windows: Windows
    """Position of the context in each row of the channel, in the order of its rows."""
    options: AnswerOptions

    def text(self, question: int, first: int, last: int) -> str:
        """Return the text from one token of a question's context to another; empty if `first` is -1."""
        if first < 0:
            return ""
        start, end = self.token_starts[question][first], self.token_ends[question][last]
        return stripped(self.contexts[question], int(start), int(end))[0]


def read_questions(channel: Channel) -> Questions:
    """Return the questions of a channel. Raises `BadData` if its files are missing or inconsistent."""
    file = channel.folder / QUESTIONS
    spans, _ = read_columns([file], ("token_starts", "token_ends"), ())
    try:
        ids, contexts, references = read_texts(file, ("id", "context", "answers"))
        metadata = json.loads((channel.folder / METADATA).read_text("utf-8"))
        options = options_of({name: metadata[name] for name in ("n_best_answers", "max_answer_length")})
    except (KeyError, pa.ArrowException) as error:
        raise BadData(f"{channel.folder}: {QUESTIONS} or {METADATA} lacks {error}") from error
    starts, ends = (_split(*spans[name]) for name in ("token_starts", "token_ends"))
    windows = _windows(channel, np.array([len(each) for each in starts]))
    return Questions(ids, contexts, references, starts, ends, windows, options)


def _split(values: np.ndarray, ends: np.ndarray) -> List[np.ndarray]:
    return np.split(values, ends[:-1])


def _windows(channel: Channel, context_tokens: np.ndarray) -> Windows:
    """Return the windows of the channel's rows; `context_tokens` is the length of each question's whole context."""
    file = channel.folder / WINDOWS
    _, columns = read_columns([file], (), Windows._fields)
    windows = Windows(*(columns[name] for name in Windows._fields))
    if len(windows.question) != len(channel.rows):
        raise BadData(f"{file} has {len(windows.question)} rows, but the channel has {len(channel.rows)}")
    windows = Windows(*(values[channel.rows.numbers] for values in windows))
    valid = (windows.question >= 0) & (windows.question < len(context_tokens))
    valid &= (windows.tokens > 0) & (windows.context_at + windows.tokens <= channel.rows.lengths)
    valid &= windows.first_token + windows.tokens <= context_tokens[np.where(valid, windows.question, 0)]
    if not valid.all():
        raise BadData(f"{file}: row {channel.rows.numbers[~valid][0]} refers to tokens that the channel does not have")
    return windows

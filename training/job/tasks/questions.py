"""The questions of a validation channel: what each row is a window of, and what the right answers are."""

import json
from dataclasses import dataclass
from typing import List

import numpy as np
import pyarrow as pa

from data.channels import METADATA, Channel, integer_column, integer_lists, read_table
from reporting.errors import BadData
from tasks.answer_spans import Places

QUESTIONS = "questions.parquet"
WINDOWS = "windows.parquet"


@dataclass(frozen=True)
class Questions:
    """All that scoring needs to know."""

    ids: List[str]
    """Name of each question."""
    contexts: List[str]
    """Text that each question is about."""
    references: List[List[str]]
    """Right answers of each question."""
    token_starts: List[np.ndarray]
    """Of each question: the character at which each token of the context begins."""
    token_ends: List[np.ndarray]
    """Of each question: one past each token's last character."""
    places: Places
    """Where the context stands in each row of the channel, in the order of its rows."""
    n_best_answers: int
    """Likeliest starts and ends of a row that are paired."""
    max_answer_length: int
    """Tokens."""

    def text(self, at: int, first: int, last: int) -> str:
        """Return the text of some tokens of a question's context; -1 is no answer."""
        if first < 0:
            return ""
        return self.contexts[at][self.token_starts[at][first] : self.token_ends[at][last]].strip()


def read_questions(channel: Channel) -> Questions:
    """Return the questions of a channel. Raises `BadData` where its files are missing or do not fit together."""
    file = channel.folder / QUESTIONS
    table = read_table(file)
    try:
        ids, contexts, references = (table.column(name).to_pylist() for name in ("id", "context", "answers"))
        metadata = json.loads((channel.folder / METADATA).read_text("utf-8"))
        options = {name: int(metadata[name]) for name in ("n_best_answers", "max_answer_length")}
    except (KeyError, pa.ArrowException) as error:
        raise BadData(f"{channel.folder}: {QUESTIONS} or {METADATA} lacks {error}") from error
    starts, ends = (_split(*integer_lists(table, name, file)) for name in ("token_starts", "token_ends"))
    places = _places(channel, np.array([len(each) for each in starts]))
    return Questions(ids, contexts, references, starts, ends, places, **options)


def _split(values: np.ndarray, ends: np.ndarray) -> List[np.ndarray]:
    return np.split(values, ends[:-1])


def _places(channel: Channel, context_tokens: np.ndarray) -> Places:
    """Return the places of the channel's rows; `context_tokens` is the length of each question's whole context."""
    file = channel.folder / WINDOWS
    table = read_table(file)
    places = Places(*(integer_column(table, name, file) for name in Places._fields))
    if len(places.question) != len(channel.rows):
        raise BadData(f"{file} has {len(places.question)} rows, but the channel has {len(channel.rows)}")
    places = Places(*(values[channel.rows.numbers] for values in places))
    fits = (places.question >= 0) & (places.question < len(context_tokens))
    fits &= (places.tokens > 0) & (places.context_at + places.tokens <= channel.rows.lengths)
    fits &= places.first_token + places.tokens <= context_tokens[np.where(fits, places.question, 0)]
    if not fits.all():
        raise BadData(f"{file}: row {channel.rows.numbers[~fits][0]} names tokens that the channel does not have")
    return places

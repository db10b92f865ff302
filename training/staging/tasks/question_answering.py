"""Question answering: one row per window, and files with the questions for scoring."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from training.staging.rows.questions import COLUMNS, Question, collect, split_by_context
from training.staging.rows.squad_json import squad_rows
from training.staging.sources.request import Columns, StagingRequest
from training.staging.sources.sources import Readers, Table, Tables
from training.staging.tokens.channel_files import ChannelContent, Content, token_columns
from training.staging.tokens.windows import Windows, cut_windows

OPTIONS: tuple[str, ...] = ("doc_stride", "n_best_answers", "max_answer_length")
READERS: Readers = {".json": ("question", squad_rows)}
HEAD = "AutoModelForQuestionAnswering"


def required_columns(columns: Columns) -> list[str]:
    """Return the columns of the Hub's `squad`, which all data for this task must have."""
    return list(COLUMNS)


def content(tables: Tables, request: StagingRequest, load_tokenizer: Callable[[], Any]) -> Content:
    """Check and split the questions, and cut them into windows. Limits on rows count questions."""
    train, validation = _questions(tables, request)
    tokenizer = load_tokenizer()

    def windows_of(questions: Sequence[Question]) -> Windows:
        return cut_windows(tokenizer, questions, max_length=request.max_length, doc_stride=request.doc_stride)

    scored = windows_of(validation)
    options = {name: getattr(request, name) for name in OPTIONS}
    files = {"questions.parquet": _question_file(validation, scored), "windows.parquet": _window_file(scored)}
    return Content(train=_channel(windows_of(train), {}, {}), validation=_channel(scored, options, files))


def _questions(tables: Tables, request: StagingRequest) -> tuple[list[Question], list[Question]]:
    """Return (training, validation) questions. Limits on rows keep the first questions of each after the split."""
    data = request.data

    def collected(table: Table, limit: int | None) -> list[Question]:
        return collect(table.rows, source=table.name, unit=table.unit, limit=limit)

    if tables.validation is not None:
        return collected(tables.train, data.train_rows), collected(tables.validation, data.validation_rows)
    share, seed = data.validation_share, data.split_seed
    everything = collected(tables.train, None)
    train, validation = split_by_context(everything, share=share, seed=seed, source=tables.train.name)
    return train[: data.train_rows], validation[: data.validation_rows]


def _channel(windows: Windows, metadata: Mapping[str, Any], files: Mapping[str, bytes]) -> ChannelContent:
    import pyarrow as pa

    columns = {
        **token_columns(windows.input_ids, windows.token_type_ids),
        "start_position": pa.array(windows.start_position, pa.int64()),
        "end_position": pa.array(windows.end_position, pa.int64()),
    }
    lengths = [len(ids) for ids in windows.input_ids]
    return ChannelContent(columns=columns, lengths=lengths, metadata=metadata, files=files)


def _question_file(questions: Sequence[Question], windows: Windows) -> bytes:
    """Return a file with one row per question: its context, its answers, and the span of each context token."""
    import pyarrow as pa

    characters = pa.list_(pa.int32())
    return _parquet(
        {
            "id": pa.array([question.id for question in questions], pa.string()),
            "context": pa.array([question.context for question in questions], pa.string()),
            "answers": pa.array(
                [[answer.text for answer in each.answers] for each in questions], pa.list_(pa.string())
            ),
            "token_starts": pa.array([spans[:, 0] for spans in windows.spans], characters),
            "token_ends": pa.array([spans[:, 1] for spans in windows.spans], characters),
        }
    )


def _window_file(windows: Windows) -> bytes:
    """Return a file with one row per window: its question, and the position of its part of the context."""
    import pyarrow as pa

    names = ("question", "context_at", "first_token", "tokens")
    return _parquet({name: pa.array(getattr(windows, name), pa.int64()) for name in names})


def _parquet(columns: Mapping[str, Any]) -> bytes:
    """Return a Parquet file without library metadata, which the old versions in a container cannot read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), file, store_schema=False)
    return file.getvalue()

"""Question answering: one row per window, and files with the questions for scoring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from training.job.tasks import TASKS
from training.staging.rows.questions import Question, read_questions, select_questions
from training.staging.rows.selection import Channel
from training.staging.sources.progress import Progress
from training.staging.sources.request import StagingRequest
from training.staging.sources.sources import Table, Tables
from training.staging.tokens.channels import (
    ChannelSummary,
    ChannelWriter,
    Content,
    RowGroupFile,
    token_columns,
    token_counts,
)
from training.staging.tokens.tokenizing import batches, encoded_batches
from training.staging.tokens.windows import WindowCutter, Windows

QUESTIONS_PER_BATCH = 500


def content(open_tables: Callable[[], Tables], request: StagingRequest, progress: Progress) -> Content:
    """Check and split the questions. Limits on rows count questions."""
    questions = select_questions(open_tables, request.data, progress)

    def write(channel: Channel, tokenizer: Any, writer: ChannelWriter, summary: ChannelSummary) -> Mapping[str, Any]:
        part = questions.part(channel)
        rows = progress.count(f"tokenising {channel} questions", part.read(), part.rows)
        cutter = WindowCutter(tokenizer, max_length=request.max_length, doc_stride=request.doc_stride)
        scoring = _ScoringFiles(writer.folder) if channel == "validation" else None
        read = batches(rows, lambda each: len(each.context), QUESTIONS_PER_BATCH)
        for batch, windows in encoded_batches(read, cutter.cut):
            columns = _columns(windows)
            writer.append(columns)
            summary.add_rows(token_counts(columns))
            for each in batch:
                summary.add_source_row([each.context, each.question], number=each.number)
            summary.cut_rows += sum(count > 1 for count in Counter(windows.question).values())
            if scoring is not None:
                scoring.append(batch, windows)
        if scoring is None:
            return {}
        scoring.close()
        return {name: getattr(request, name) for name in TASKS[request.task].scoring_options}

    return Content(source=questions.source, write=write)


def row_lengths(table: Table, request: StagingRequest, tokenizer: Any) -> list[int]:
    """Return the length in tokens of each window that the questions of a table make."""
    cutter = WindowCutter(tokenizer, max_length=request.max_length, doc_stride=request.doc_stride)
    return [len(ids) for ids in cutter.cut(list(read_questions(table))).input_ids]


def _columns(windows: Windows) -> dict[str, Any]:
    import pyarrow as pa

    return {
        **token_columns(windows.input_ids, windows.token_type_ids),
        "start_position": pa.array(windows.start_position, pa.int64()),
        "end_position": pa.array(windows.end_position, pa.int64()),
    }


class _ScoringFiles:
    """Files of the validation channel with the questions and the position of each window."""

    def __init__(self, folder: Path) -> None:
        self._questions = RowGroupFile(folder / "questions.parquet")
        self._windows = RowGroupFile(folder / "windows.parquet")
        self._rows = 0

    def append(self, questions: Sequence[Question], windows: Windows) -> None:
        """Append the next questions and their windows."""
        self._questions.append(_question_columns(questions, windows))
        self._windows.append(_window_columns(windows, self._rows))
        self._rows += len(questions)

    def close(self) -> None:
        """Write the last rows."""
        self._questions.close()
        self._windows.close()


def _question_columns(questions: Sequence[Question], windows: Windows) -> dict[str, Any]:
    """Return one row per question: its context, its answers, and the span of each context token."""
    import pyarrow as pa

    characters = pa.list_(pa.int32())
    return {
        "id": pa.array([question.id for question in questions], pa.string()),
        "context": pa.array([question.context for question in questions], pa.string()),
        "answers": pa.array([[answer.text for answer in each.answers] for each in questions], pa.list_(pa.string())),
        "token_starts": pa.array([spans[:, 0] for spans in windows.spans], characters),
        "token_ends": pa.array([spans[:, 1] for spans in windows.spans], characters),
    }


def _window_columns(windows: Windows, first_question: int) -> dict[str, Any]:
    """Return one row per window: its question, and the position of its part of the context."""
    import pyarrow as pa

    columns = {name: pa.array(getattr(windows, name), pa.int64()) for name in ("context_at", "first_token", "tokens")}
    return {"question": pa.array([first_question + at for at in windows.question], pa.int64()), **columns}

"""Batches, windows and the progress line, by hand and with random input."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from models.batch.batches import batches, evaluation_batches
from models.batch.prediction import WINDOW_ROWS, windows
from models.batch.progress import Progress, line
from models.batch.rows import InputRow

INPUTS = st.lists(st.tuples(st.integers(1, 600), st.integers(1, 4)), max_size=60)


@given(INPUTS, st.integers(1, 2_000))
def test_every_input_is_in_one_batch_that_fits(inputs: list[tuple[int, int]], most_tokens: int) -> None:
    lengths, rows = [length for length, _ in inputs], [row for _, row in inputs]
    result = batches(lengths, rows, most_tokens)
    assert sorted(at for batch in result for at in batch) == list(range(len(inputs)))
    for batch in result:
        taken = sum(rows[at] for at in batch) * max(lengths[at] for at in batch)
        assert taken <= most_tokens or len(batch) == 1
    longest = [max(lengths[at] for at in batch) for batch in result]
    assert longest == sorted(longest, reverse=True)


def test_batches_by_hand() -> None:
    # The longest first: 10 and 9 would take 2 x 10 of 18 tokens; 9 alone leaves no room for 4 (2 x 9 = 18 does).
    assert batches([4, 10, 9, 1], [1, 1, 1, 1], 18) == [[1], [2, 0], [3]]
    assert batches([4, 4, 4], [3, 1, 2], 16) == [[0, 1], [2]]


def test_a_window_has_limited_rows_and_characters() -> None:
    rows = [InputRow(at, "", None, "x") for at in range(WINDOW_ROWS + 2)]
    assert [len(window) for window in windows(iter(rows))] == [WINDOW_ROWS, 2]
    context = "y" * 2**24
    long = [InputRow(at, "", None, {"question": "x", "context": context}) for at in range(5)]
    assert [len(window) for window in windows(iter(long))] == [2, 2, 1]
    assert list(windows(iter([]))) == []


def test_progress_prints_rate_and_remaining_time() -> None:
    assert line("Predicting", 250, 1_000, 50.0) == "Predicting: 250 of 1,000 rows, 50.0 rows/s, 15 s left"
    assert line("Predicting", 0, 10_000, 1.0).endswith("2 h 46 min left")
    assert line("Predicting", 0, 10, 0.0) == "Predicting: 0 of 10 rows, 0.0 rows/s"
    assert line("Checking", 1_234, None, 9.0) == "Checking: 1,234 rows"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_line_and_a_log_one_per_minute() -> None:
    now = [0.0]
    terminal, log = Terminal(), io.StringIO()
    for file in (terminal, log):
        now[0] = 0.0
        with Progress("Predicting", file, lambda: now[0]).set_total(1_000, done_before=100) as progress:
            for done in range(100, 1_000, 5):
                now[0] += 0.5
                progress.update(done)
    assert terminal.getvalue().count("\n") == 0
    assert terminal.getvalue().startswith("\rPredicting: 100 of 1,000 rows, 0.0 rows/s")
    assert terminal.getvalue().endswith("\r\x1b[K")
    # At 60 s, 120 calls of 5 rows after the first: 595 rows since 100.
    assert log.getvalue() == "Predicting: 695 of 1,000 rows, 9.9 rows/s, 31 s left\n"


def test_the_batches_of_an_evaluation_by_hand() -> None:
    # Sorted, equal lengths in order: 3, 0, 2, 1, 4. The incomplete batch has the longest rows and runs first.
    assert evaluation_batches([4, 7, 4, 2, 9], 2) == [[4], [2, 1], [3, 0]]
    assert evaluation_batches([5], 8) == [[0]]

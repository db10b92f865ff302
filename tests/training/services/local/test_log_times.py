"""Times of log lines: every reading returns the same times."""

from __future__ import annotations

from pathlib import Path

from tests.support.services.following import ended, running
from tests.support.services.harness import LocalHarness
from training.services.launcher import submit
from training.services.local.job_folder import MARK, LogMarker, LogTimes, marks_file

PRINTS_IN_PARTS = """
    import pathlib, sys, time
    print("running")
    print("still", end="")
    while not pathlib.Path(sys.argv[2]).exists():
        time.sleep(0.01)
    time.sleep(1.0)
    print(" running")
    print("the end", end="")
"""


def test_lines_keep_the_time_at_which_they_first_appeared(harness: LocalHarness, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = submit(harness.service, harness.request(PRINTS_IN_PARTS, hyperparameters={"go": str(go)}))
    running(job)
    early = harness.service.logs("job")
    go.touch()
    description, lines = ended(job)
    page = harness.again().logs("job")
    assert list(page.lines) == lines == ["running", "still running", "the end"]
    assert page.times[0] == early.times[0]
    assert 0.3 < page.times[1] - page.times[0] < 60
    assert description["TrainingStartTime"].timestamp() <= page.times[0]
    assert page.times[2] <= description["TrainingEndTime"].timestamp()
    assert harness.service.logs("job", early.cursor).times == page.times[1:]


def test_times_are_those_of_the_marks(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    marks_file(log).write_bytes(MARK.pack(10.0, 5) + MARK.pack(20.0, 9) + b"torn")
    times = LogTimes(log)
    assert times.marked_bytes == 9
    assert times.at([1, 5, 6, 9, 10], otherwise=99.0) == [10.0, 10.0, 20.0, 20.0, 99.0]


def test_a_mark_is_written_only_when_the_log_has_grown(tmp_path: Path) -> None:
    assert LogTimes(tmp_path / "log.txt").marked_bytes is None
    (tmp_path / "log.txt").touch()
    marker = LogMarker(tmp_path / "log.txt")
    marker.mark()
    assert LogTimes(tmp_path / "log.txt").marked_bytes == 0
    (tmp_path / "log.txt").write_text("12345")
    marker.mark()
    marker.mark()
    assert (LogTimes(tmp_path / "log.txt").marked_bytes, len(LogTimes(tmp_path / "log.txt"))) == (5, 1)


def test_marks_on_a_full_disk_do_not_end_the_job(tmp_path: Path) -> None:
    (tmp_path / "log.txt").touch()
    marker = LogMarker(tmp_path / "log.txt")
    (tmp_path / "log.txt").unlink()
    marker.mark()

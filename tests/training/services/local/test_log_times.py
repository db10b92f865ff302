"""When each line of a log was written: the same at each reading, whoever reads and whenever."""

from __future__ import annotations

from pathlib import Path

from tests.support.services.following import ended, running
from tests.support.services.places import LocalPlace
from training.services.launcher import submit
from training.services.local.log_times import MARK, LogMarker, LogTimes, marks_file

SPEAKS_TWICE = """
    import time
    print("running")
    print("still", end="")
    time.sleep(1.0)
    print(" running")
    print("the end", end="")
"""


def test_lines_keep_the_time_at_which_they_were_first_seen(place: LocalPlace) -> None:
    job = submit(place.service, place.request(SPEAKS_TWICE))
    running(job)
    early = place.service.logs("job")
    description, lines = ended(job)
    page = place.again().logs("job")
    assert list(page.lines) == lines == ["running", "still running", "the end"]
    assert page.times[0] == early.times[0]
    assert 0.3 < page.times[1] - page.times[0] < 60
    assert description["TrainingStartTime"].timestamp() <= page.times[0]
    assert page.times[2] <= description["TrainingEndTime"].timestamp()
    assert place.service.logs("job", early.cursor).times == page.times[1:]


def test_a_place_in_the_container_is_that_place_here(place: LocalPlace) -> None:
    """Published workloads write their hyperparameters for a container."""
    script = "import json, os, sys; print(sys.argv[2:7:2]); print(json.loads(os.environ['SM_HPS'])['b'])"
    given = {"a": "/opt/ml/model", "b": "/opt/ml", "c": "/opt/mlx"}
    _, lines = ended(submit(place.service, place.request(script, hyperparameters=given)))
    base = str(place.job_folder().resolve() / "opt" / "ml")
    assert lines == [str([f"{base}/model", base, "/opt/mlx"]), base]
    assert place.service.describe("job")["HyperParameters"]["a"] == '"/opt/ml/model"'


def test_marks_by_hand(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    marks_file(log).write_bytes(MARK.pack(10.0, 5) + MARK.pack(20.0, 9) + b"torn")
    times = LogTimes(log)
    assert times.marked_bytes == 9
    assert times.at([1, 5, 6, 9, 10], otherwise=99.0) == [10.0, 10.0, 20.0, 20.0, 99.0]


def test_a_log_without_marks(tmp_path: Path) -> None:
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


def test_following_sees_the_times(place: LocalPlace) -> None:
    job = submit(place.service, place.request("print('a'); print('b')"))
    updates = list(job.follow())
    assert [len(update.lines) for update in updates] == [len(update.times) for update in updates]
    assert sum(len(update.times) for update in updates) == 2

"""A job's folder: its state, damaged files, which harm no other job, and the times of its log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from experiments.running.manage_jobs import print_jobs
from tests.support.services.following import ended, running
from tests.support.services.harness import LocalHarness
from training.services.launcher import submit
from training.services.supervision.job_folder import MARK, DamagedJob, LogTimes, marks_file, with_billing

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


@pytest.fixture(scope="module")
def two_jobs(tmp_path_factory: pytest.TempPathFactory) -> LocalHarness:
    """A service with two jobs that ended."""
    harness = LocalHarness(tmp_path_factory.mktemp("damaged"))
    with pytest.MonkeyPatch.context() as patch:
        # The slots of each test are those of its own only from its start on.
        patch.setenv("TRAINFARE_SLOTS", str(tmp_path_factory.mktemp("slots")))
        for name in ("job", "other"):
            ended(submit(harness.service, harness.request("print('a line')", name=name)))
    return harness


@pytest.mark.parametrize("file", ["state.json", "request.json"])
def test_a_damaged_file_is_named_and_harms_no_other_job(
    two_jobs: LocalHarness, file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = two_jobs.job_folder() / file
    kept = path.with_name("kept")
    shutil.copy(path, kept)
    try:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        damaged = path.parent.resolve() / path.name
        with pytest.raises(DamagedJob, match=f"^{damaged} is damaged: it is not JSON$"):
            two_jobs.service.describe("job")
        assert two_jobs.service.describe("other")["TrainingJobStatus"] == "Completed"
        monkeypatch.setenv("TRAINFARE_HOME", str(two_jobs.root))
        print_jobs("local", None)
        assert "other" in capsys.readouterr().out
    finally:
        kept.replace(path)
    assert two_jobs.service.describe("job")["TrainingJobStatus"] == "Completed"


def test_billing_starts_with_the_download() -> None:
    """Created at 100 s, waited for a core until 160 s, ended at 172.4 s."""
    state = with_billing({"CreationTime": 100.0, "TrainingStartTime": 160.0}, 172.4)
    assert (state["BillableTimeInSeconds"], round(state["BillableSecondsExact"], 6)) == (12, 12.4)
    assert "BillableTimeInSeconds" not in with_billing({"CreationTime": 100.0}, 172.4)


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

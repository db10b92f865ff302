"""The source of our own jobs."""

from __future__ import annotations

from pathlib import Path

from experiments.planning.job_source import job_source, make_job_source


def test_a_job_gets_one_file_and_the_package_that_it_starts(tmp_path: Path) -> None:
    """Nothing beside `train.py` can shadow a module that the job imports."""
    source = make_job_source(tmp_path)
    assert source == job_source(tmp_path)
    assert {path.name for path in source.iterdir()} == {"train.py", "training"}
    assert {path.name for path in (source / "training").iterdir()} == {"__init__.py", "job"}
    shipped = {path.relative_to(source / "training") for path in source.rglob("training/job/**/*.py")}
    training = Path(__file__).resolve().parents[3] / "training"
    assert shipped == {path.relative_to(training) for path in training.glob("job/**/*.py")}


def test_a_damaged_copy_is_made_again(tmp_path: Path) -> None:
    train = make_job_source(tmp_path) / "train.py"
    whole = train.read_bytes()
    train.write_text("")
    messages: list[str] = []
    assert make_job_source(tmp_path, messages.append) == train.parent
    assert train.read_bytes() == whole
    assert [message.endswith("It is made again.") for message in messages] == [True]

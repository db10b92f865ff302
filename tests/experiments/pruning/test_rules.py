"""Rules of `jobs prune`: the status of every kind of folder, the choices, and the output."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.pruning.inventory import Folder, FolderKind, Inventory, LocalJob
from experiments.pruning.messages import count_and_size, format_age, kept_lines
from experiments.pruning.rules import PruneOptions, decide, status_of
from tracking.groups.run_references import JobReference, RunReferences

NOW = 1_800_000_000.0
DAY = 86_400.0
KEY, OTHER_KEY, COMMIT = "a1" * 16, "b2" * 16, "c3" * 20
GROUP = "demo-261101-120000-ab12"
JOB = f"{GROUP}-none-a0r0"
ENDED = JobReference(experiment="demo")
NO_REFERENCES = RunReferences(jobs={}, open_groups={}, data_keys=set())


def folder(kind: FolderKind, name: str, size_bytes: int = 10, age_days: float = 3.0, left_over: bool = False) -> Folder:
    return Folder(
        kind=kind,
        name=name,
        path=Path("/home") / kind / name,
        size_bytes=size_bytes,
        changed=NOW - age_days * DAY,
        is_leftover=left_over,
    )


def local(name: str = JOB, *reads: str, ended: bool = True, wrote: bool = False) -> LocalJob:
    request = json.dumps({"TrainingJobName": name, "InputDataConfig": [f"file:///home/{each}" for each in reads]})
    return LocalJob(name=name, has_ended=ended, request=request, wrote_output=wrote)


def inventory_of(*folders: Folder, jobs: tuple[LocalJob, ...] = ()) -> Inventory:
    return Inventory(folders=folders, jobs={job.name: job for job in jobs})


def references(
    job: JobReference | None = ENDED, *, open_groups: dict[str, str] | None = None, keys: tuple[str, ...] = ()
) -> RunReferences:
    return RunReferences(jobs={JOB: job} if job else {}, open_groups=open_groups or {}, data_keys=set(keys))


WORK, CHECKPOINTS, MODEL = folder("jobs", JOB), folder("checkpoints", JOB), folder("outputs", JOB)
DATA, SOURCE, PACKAGES = folder("staged", KEY), folder("sources", COMMIT), folder("environments", KEY)


@pytest.mark.parametrize(
    ("one", "others", "jobs", "runs", "status"),
    [
        # A job whose end and log are recorded.
        (WORK, (), (local(),), references(), "safe"),
        (CHECKPOINTS, (MODEL,), (local(),), references(), "safe"),
        (CHECKPOINTS, (MODEL,), (), references(), "safe"),
        (MODEL, (), (local(),), references(), "irreplaceable"),
        # MLflow holds the model.
        (MODEL, (), (local(),), references(replace(ENDED, has_model=True)), "safe"),
        (CHECKPOINTS, (), (local(),), references(replace(ENDED, has_model=True)), "safe"),
        (MODEL, (), (), references(replace(ENDED, is_deleted=True, has_model=True)), "safe"),
        # Something that exists nowhere else.
        (WORK, (), (local(wrote=True),), references(), "irreplaceable"),
        (CHECKPOINTS, (), (local(),), references(), "irreplaceable"),
        (CHECKPOINTS, (MODEL,), (local(),), references(replace(ENDED, is_completed=False)), "irreplaceable"),
        # The run is deleted, or unknown.
        (WORK, (), (local(wrote=True),), references(replace(ENDED, is_deleted=True)), "safe"),
        (CHECKPOINTS, (), (local(),), references(replace(ENDED, is_deleted=True)), "safe"),
        (MODEL, (), (), references(replace(ENDED, is_deleted=True)), "safe"),
        (WORK, (), (local(),), references(None), "irreplaceable"),
        (CHECKPOINTS, (), (), references(None), "irreplaceable"),
        (MODEL, (), (), references(None), "irreplaceable"),
        # Data and scripts, by the jobs that read them.
        (DATA, (), (local(JOB, KEY),), references(), "safe"),
        (DATA, (), (), references(keys=(KEY,)), "safe"),
        (DATA, (), (local(JOB, KEY),), references(None, keys=(KEY,)), "irreplaceable"),
        (DATA, (), (local(JOB, OTHER_KEY),), references(), "irreplaceable"),
        (SOURCE, (), (local(JOB, COMMIT),), references(), "irreplaceable"),
        (SOURCE, (), (), references(), "irreplaceable"),
        (PACKAGES, (), (local(JOB, KEY),), references(), "safe"),
        (PACKAGES, (), (local(JOB, KEY, ended=False),), references(), "needed"),
        (SOURCE, (), (local(JOB, COMMIT),), references(replace(ENDED, is_deleted=True)), "safe"),
        (SOURCE, (), (local(JOB, COMMIT),), references(None), "irreplaceable"),
        (folder("staged", ".unfinished-1", left_over=True), (), (), references(), "leftover"),
    ],
)
def test_status_of_every_folder(
    one: Folder, others: tuple[Folder, ...], jobs: tuple[LocalJob, ...], runs: RunReferences, status: str
) -> None:
    assert status_of(one, inventory_of(one, *others, jobs=jobs), runs)[0] == status


OPEN = {GROUP: f'{{"channels": "file:///home/staged/{KEY}/train"}}'}


@pytest.mark.parametrize(
    ("one", "jobs", "runs", "why"),
    [
        (WORK, (local(ended=False),), references(), f"job {JOB} has not ended"),
        (CHECKPOINTS, (local(ended=False),), references(), f"job {JOB} has not ended"),
        (MODEL, (local(ended=False),), references(replace(ENDED, is_deleted=True)), f"job {JOB} has not ended"),
        (CHECKPOINTS, (local("second", JOB, ended=False),), references(), "job second has not ended"),
        (DATA, (local("second", KEY, ended=False),), references(keys=(KEY,)), "job second has not ended"),
        (SOURCE, (local("second", COMMIT, ended=False),), references(), "job second has not ended"),
        (WORK, (local(),), references(open_groups=OPEN), f"group {GROUP} is open"),
        (WORK, (local(),), references(None, open_groups=OPEN), f"group {GROUP} is open"),
        (MODEL, (), references(replace(ENDED, is_deleted=True), open_groups=OPEN), f"group {GROUP} is open"),
        (DATA, (), references(open_groups=OPEN, keys=(KEY,)), f"group {GROUP} is open"),
        (SOURCE, (), references(open_groups={"x": f"sources/{COMMIT}"}), "group x is open"),
        (WORK, (local(),), references(replace(ENDED, has_ended=False)), "its run is open"),
        (CHECKPOINTS, (), references(replace(ENDED, has_ended=False)), "its run is open"),
        (WORK, (local(),), references(replace(ENDED, has_log=False)), "its run does not contain its log"),
    ],
)
def test_needed_folders_are_kept_by_every_choice(
    one: Folder, jobs: tuple[LocalJob, ...], runs: RunReferences, why: str
) -> None:
    [decisions] = decide(inventory_of(one, jobs=jobs), runs, PruneOptions(everything=True), NOW)
    assert (decisions.status, decisions.is_deletable) == ("needed", False)
    assert decisions.why.startswith(why)


@pytest.mark.parametrize("one", [WORK, CHECKPOINTS, MODEL, DATA, SOURCE])
def test_a_job_that_cannot_be_read_keeps_its_folders(one: Folder) -> None:
    """The job may be another user's in a shared state folder. It may run, and read any of the data."""
    state = replace(inventory_of(one), unreadable=frozenset({JOB}))
    [decisions] = decide(state, references(keys=(KEY,)), PruneOptions(everything=True), NOW)
    assert not decisions.is_deletable
    assert "cannot be read" in decisions.why


def test_a_work_folder_without_a_job_is_kept() -> None:
    [decisions] = decide(inventory_of(WORK), references(), PruneOptions(), NOW)
    assert not decisions.is_deletable


class TestChoice:
    state = inventory_of(
        folder("jobs", JOB, 1_000, age_days=1.0),
        folder("checkpoints", JOB, 5_000_000, age_days=9.0),
        folder("outputs", JOB, 2_000_000, age_days=9.0),
        folder("staged", KEY, 300_000, age_days=30.0),
        folder("staged", OTHER_KEY, 70, age_days=30.0),
        folder("checkpoints", "else-1", 4_000, age_days=30.0),
        jobs=(local(JOB, KEY),),
    )

    def deletable(self, options: PruneOptions) -> list[tuple[str, str]]:
        return [
            (each.folder.kind, each.folder.name)
            for each in decide(self.state, references(), options, NOW)
            if each.is_deletable
        ]

    def test_the_default_deletes_safe_folders_largest_first(self) -> None:
        assert self.deletable(PruneOptions()) == [("checkpoints", JOB), ("staged", KEY), ("jobs", JOB)]

    def test_everything_deletes_irreplaceable_folders_too(self) -> None:
        assert self.deletable(PruneOptions(everything=True)) == [
            ("checkpoints", JOB),
            ("outputs", JOB),
            ("staged", KEY),
            ("checkpoints", "else-1"),
            ("jobs", JOB),
            ("staged", OTHER_KEY),
        ]

    def test_data_is_as_old_as_its_latest_reader(self) -> None:
        """The data was staged 30 days ago, and the job that reads it ended yesterday."""
        assert self.deletable(PruneOptions(older_than_seconds=2 * DAY)) == [("checkpoints", JOB)]
        ages = {each.folder.name: each.age_seconds for each in decide(self.state, references(), PruneOptions(), NOW)}
        assert ages[KEY] == DAY
        assert ages[OTHER_KEY] == 30 * DAY

    def test_the_age_limit_is_inclusive(self) -> None:
        assert self.deletable(PruneOptions(older_than_seconds=9 * DAY)) == [("checkpoints", JOB)]
        assert self.deletable(PruneOptions(older_than_seconds=9 * DAY + 1)) == []

    def test_a_group_limits_the_choice(self) -> None:
        decisions = decide(self.state, references(), PruneOptions(group=GROUP), NOW)
        assert {(each.folder.kind, each.folder.name) for each in decisions} == {
            ("jobs", JOB),
            ("checkpoints", JOB),
            ("outputs", JOB),
            ("staged", KEY),
        }
        assert decide(self.state, references(), PruneOptions(group=GROUP[:-1]), NOW) == []

    def test_leftovers_are_always_deleted(self) -> None:
        state = inventory_of(folder("jobs", ".trash-1", age_days=0.0, left_over=True))
        for options in (PruneOptions(older_than_seconds=DAY), PruneOptions(group="x"), PruneOptions(everything=True)):
            assert [each.is_deletable for each in decide(state, NO_REFERENCES, options, NOW)] == [True]

    def test_the_output_states_sizes_and_reasons(self) -> None:
        decisions = decide(self.state, references(), PruneOptions(), NOW)
        assert count_and_size([each for each in decisions if each.is_deletable]) == "3 folders, 5.3 MB"
        assert kept_lines(decisions) == [
            "kept: 1 folder, 2.0 MB: its run refers to it (--everything deletes it)",
            "kept: 1 folder, 4.0 kB: the tracking server has no run of this job (--everything deletes it)",
            "kept: 1 folder, 70 bytes: the tracking server has no run that read it (--everything deletes it)",
        ]
        assert {each.folder.name: each.experiment for each in decisions} == {
            JOB: "demo",
            KEY: "demo",
            OTHER_KEY: "",
            "else-1": "",
        }

    def test_young_folders_are_listed_as_kept(self) -> None:
        decisions = decide(self.state, references(), PruneOptions(older_than_seconds=2 * DAY), NOW)
        assert "kept: 2 folders, 301.0 kB: younger than --older-than" in kept_lines(decisions)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(-5.0, "0 s"), (59.9, "59 s"), (60.0, "1 min"), (7_199.0, "1 h"), (86_399.0, "23 h"), (200_000.0, "2 d")],
)
def test_an_age_is_shown_in_its_largest_unit(seconds: float, expected: str) -> None:
    assert format_age(seconds) == expected

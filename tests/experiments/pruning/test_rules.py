"""What may go and what stays: every rule on folders, jobs and runs made by hand; and the words around it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.pruning.inventory import Folder, Inventory, LocalJob, Place
from experiments.pruning.messages import aged, counted, stays
from experiments.pruning.options import options
from experiments.pruning.rules import KINDS, Choice, judge, kind_of
from tracking.groups.run_references import JobReference, RunReferences
from training.contract.errors import InputError

NOW = 1_800_000_000.0
DAY = 86_400.0
KEY, OTHER_KEY, COMMIT = "a1" * 16, "b2" * 16, "c3" * 20
GROUP = "demo-261101-120000-ab12"
JOB = f"{GROUP}-none-a0r0"
ENDED = JobReference(experiment="demo")
NOTHING_TOLD = RunReferences(jobs={}, open_groups={}, data_keys=set())


def folder(place: Place, name: str, size_bytes: int = 10, age_days: float = 3.0, left_over: bool = False) -> Folder:
    return Folder(
        place=place,
        name=name,
        path=Path("/home") / place / name,
        size_bytes=size_bytes,
        changed=NOW - age_days * DAY,
        is_left_over=left_over,
    )


def local(name: str = JOB, *reads: str, ended: bool = True, wrote: bool = False) -> LocalJob:
    request = json.dumps({"TrainingJobName": name, "InputDataConfig": [f"file:///home/{each}" for each in reads]})
    return LocalJob(name=name, has_ended=ended, request=request, wrote_output=wrote)


def found(*folders: Folder, jobs: tuple[LocalJob, ...] = ()) -> Inventory:
    return Inventory(folders=folders, jobs={job.name: job for job in jobs})


def told(
    job: JobReference | None = ENDED, *, open_groups: dict[str, str] | None = None, keys: tuple[str, ...] = ()
) -> RunReferences:
    return RunReferences(jobs={JOB: job} if job else {}, open_groups=open_groups or {}, data_keys=set(keys))


WORK, CHECKPOINTS, MODEL = folder("jobs", JOB), folder("checkpoints", JOB), folder("outputs", JOB)
DATA, SOURCE = folder("staged", KEY), folder("sources", COMMIT)


@pytest.mark.parametrize(
    ("one", "others", "jobs", "runs", "kind"),
    [
        # A job whose end is recorded, log included.
        (WORK, (), (local(),), told(), "jobs"),
        (CHECKPOINTS, (MODEL,), (local(),), told(), "checkpoints"),
        (CHECKPOINTS, (MODEL,), (), told(), "checkpoints"),
        (MODEL, (), (local(),), told(), "models"),
        # MLflow holds its model.
        (MODEL, (), (local(),), told(replace(ENDED, has_model=True)), "copies"),
        (CHECKPOINTS, (), (local(),), told(replace(ENDED, has_model=True)), "checkpoints"),
        (MODEL, (), (), told(replace(ENDED, is_deleted=True, has_model=True)), "deleted"),
        # What stands for something that is nowhere else.
        (WORK, (), (local(wrote=True),), told(), "outputs"),
        (CHECKPOINTS, (), (local(),), told(), "models"),
        (CHECKPOINTS, (MODEL,), (local(),), told(replace(ENDED, is_completed=False)), "unfinished"),
        # Its run is deleted, or unknown.
        (WORK, (), (local(wrote=True),), told(replace(ENDED, is_deleted=True)), "deleted"),
        (CHECKPOINTS, (), (local(),), told(replace(ENDED, is_deleted=True)), "deleted"),
        (MODEL, (), (), told(replace(ENDED, is_deleted=True)), "deleted"),
        (WORK, (), (local(),), told(None), "unknown"),
        (CHECKPOINTS, (), (), told(None), "unknown"),
        (MODEL, (), (), told(None), "unknown"),
        # Data and scripts, by who has read them.
        (DATA, (), (local(JOB, KEY),), told(), "data"),
        (DATA, (), (), told(keys=(KEY,)), "data"),
        (DATA, (), (local(JOB, KEY),), told(None, keys=(KEY,)), "unknown"),
        (DATA, (), (local(JOB, OTHER_KEY),), told(), "unknown"),
        (SOURCE, (), (local(JOB, COMMIT),), told(), "sources"),
        (SOURCE, (), (), told(), "sources"),
        (SOURCE, (), (local(JOB, COMMIT),), told(replace(ENDED, is_deleted=True)), "deleted"),
        (SOURCE, (), (local(JOB, COMMIT),), told(None), "unknown"),
        (folder("staged", ".unfinished-1", left_over=True), (), (), told(), "left over"),
    ],
)
def test_every_folder_is_of_one_kind(
    one: Folder, others: tuple[Folder, ...], jobs: tuple[LocalJob, ...], runs: RunReferences, kind: str
) -> None:
    assert kind_of(one, found(one, *others, jobs=jobs), runs)[0] == kind


OPEN = {GROUP: f'{{"channels": "file:///home/staged/{KEY}/train"}}'}


@pytest.mark.parametrize(
    ("one", "jobs", "runs", "why"),
    [
        (WORK, (local(ended=False),), told(), f"job {JOB} has not ended"),
        (CHECKPOINTS, (local(ended=False),), told(), f"job {JOB} has not ended"),
        (MODEL, (local(ended=False),), told(replace(ENDED, is_deleted=True)), f"job {JOB} has not ended"),
        (CHECKPOINTS, (local("second", JOB, ended=False),), told(), "job second has not ended"),
        (DATA, (local("second", KEY, ended=False),), told(keys=(KEY,)), "job second has not ended"),
        (SOURCE, (local("second", COMMIT, ended=False),), told(), "job second has not ended"),
        (WORK, (local(),), told(open_groups=OPEN), f"group {GROUP} is open"),
        (WORK, (local(),), told(None, open_groups=OPEN), f"group {GROUP} is open"),
        (MODEL, (), told(replace(ENDED, is_deleted=True), open_groups=OPEN), f"group {GROUP} is open"),
        (DATA, (), told(open_groups=OPEN, keys=(KEY,)), f"group {GROUP} is open"),
        (SOURCE, (), told(open_groups={"x": f"sources/{COMMIT}"}), "group x is open"),
        (WORK, (local(),), told(replace(ENDED, has_ended=False)), "its run is open"),
        (CHECKPOINTS, (), told(replace(ENDED, has_ended=False)), "its run is open"),
        (WORK, (local(),), told(replace(ENDED, has_log=False)), "its log is nowhere else"),
    ],
)
def test_what_is_needed_stays_whatever_is_asked(
    one: Folder, jobs: tuple[LocalJob, ...], runs: RunReferences, why: str
) -> None:
    everything = Choice(kinds=frozenset(KINDS))
    [judged] = judge(found(one, jobs=jobs), runs, everything, NOW)
    assert (judged.kind, judged.goes) == (None, False)
    assert judged.why.startswith(why)


@pytest.mark.parametrize("one", [WORK, CHECKPOINTS, MODEL, DATA, SOURCE])
def test_a_job_that_cannot_be_read_may_be_running(one: Folder) -> None:
    """Another user's, on a state folder that several share: it may also read any of the data."""
    state = replace(found(one), unreadable=frozenset({JOB}))
    [judged] = judge(state, told(keys=(KEY,)), Choice(kinds=frozenset(KINDS)), NOW)
    assert not judged.goes
    assert "cannot be read" in judged.why


def test_a_work_folder_that_has_gone_meanwhile_stays_untouched() -> None:
    [judged] = judge(found(WORK), told(), Choice(), NOW)
    assert not judged.goes


class TestChoice:
    state = found(
        folder("jobs", JOB, 1_000, age_days=1.0),
        folder("checkpoints", JOB, 5_000_000, age_days=9.0),
        folder("outputs", JOB, 2_000_000, age_days=9.0),
        folder("staged", KEY, 300_000, age_days=30.0),
        folder("staged", OTHER_KEY, 70, age_days=30.0),
        folder("checkpoints", "else-1", 4_000, age_days=30.0),
        jobs=(local(JOB, KEY),),
    )

    def going(self, choice: Choice) -> list[tuple[str, str]]:
        return [(each.folder.place, each.folder.name) for each in judge(self.state, told(), choice, NOW) if each.goes]

    def test_largest_first_and_only_what_nothing_refers_to(self) -> None:
        assert self.going(Choice()) == [("checkpoints", JOB), ("staged", KEY), ("jobs", JOB)]

    def test_kinds(self) -> None:
        assert self.going(Choice(kinds=frozenset({"models"}))) == [("outputs", JOB)]
        assert self.going(Choice(kinds=frozenset({"unknown"}))) == [("checkpoints", "else-1"), ("staged", OTHER_KEY)]

    def test_age_and_data_are_as_old_as_their_last_reader(self) -> None:
        """The data was staged 30 days ago, and the job that reads it ended yesterday."""
        assert self.going(Choice(older_than_seconds=2 * DAY)) == [("checkpoints", JOB)]
        ages = {each.folder.name: each.age_seconds for each in judge(self.state, told(), Choice(), NOW)}
        assert ages[KEY] == DAY
        assert ages[OTHER_KEY] == 30 * DAY

    def test_what_is_as_old_as_asked_goes(self) -> None:
        assert self.going(Choice(older_than_seconds=9 * DAY)) == [("checkpoints", JOB)]
        assert self.going(Choice(older_than_seconds=9 * DAY + 1)) == []

    def test_a_group(self) -> None:
        judged = judge(self.state, told(), Choice(group=GROUP), NOW)
        assert {(each.folder.place, each.folder.name) for each in judged} == {
            ("jobs", JOB),
            ("checkpoints", JOB),
            ("outputs", JOB),
            ("staged", KEY),
        }
        assert judge(self.state, told(), Choice(group=GROUP[:-1]), NOW) == []

    def test_what_was_left_behind_goes_always(self) -> None:
        state = found(folder("jobs", ".trash-1", age_days=0.0, left_over=True))
        for choice in (Choice(older_than_seconds=DAY), Choice(group="x"), Choice(kinds=frozenset({"data"}))):
            assert [each.goes for each in judge(state, NOTHING_TOLD, choice, NOW)] == [True]

    def test_the_words(self) -> None:
        judged = judge(self.state, told(), Choice(), NOW)
        assert counted([each for each in judged if each.goes]) == "3 folders, 5.3 MB"
        assert stays(judged) == [
            "stays: 1 folder, 2.0 MB: its run names it (--what models)",
            "stays: 1 folder, 4.0 kB: the tracking server knows no run of it (--what unknown)",
            "stays: 1 folder, 70 bytes: the tracking server knows no run that read it (--what unknown)",
        ]
        assert {each.folder.name: each.experiment for each in judged} == {
            JOB: "demo",
            KEY: "demo",
            OTHER_KEY: "",
            "else-1": "",
        }

    def test_too_young_is_said(self) -> None:
        judged = judge(self.state, told(), Choice(older_than_seconds=2 * DAY), NOW)
        assert "stays: 2 folders, 301.0 kB: younger than asked for" in stays(judged)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5.0, "0 s"), (59.9, "59 s"), (60.0, "1 min"), (7_199.0, "1 h"), (86_399.0, "23 h"), (200_000.0, "2 d")],
)
def test_ages(seconds: float, said: str) -> None:
    assert aged(seconds) == said


def test_options() -> None:
    assert options([]) == (Choice(), False)
    assert options(["--yes", "--older-than", "7d"]) == (Choice(older_than_seconds=7 * DAY), True)
    assert options(["--older-than=12h", "--group", "g-1"]) == (
        Choice(older_than_seconds=12 * 3600.0, group="g-1"),
        False,
    )
    assert options(["--what", "data, models"]) == (Choice(kinds=frozenset({"data", "models"})), False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--yess"],
            "unknown option '--yess' of jobs prune: --what, --older-than, --group, --yes. Did you mean '--yes'?",
        ),
        (["everything"], "unknown option 'everything'"),
        (["--what", "model"], "--what is 'model': it must be of jobs, checkpoints,"),
        (["--older-than", "7"], "--older-than is '7': it must be a number of hours or days, such as 12h or 7d."),
        (["--older-than", "-7d"], "--older-than is '-7d'"),
        (["--group"], "--group of jobs prune has no value."),
        (["--group", "--yes"], "--group of jobs prune has no value."),
    ],
)
def test_wrong_options_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(InputError) as refused:
        options(words)
    assert said in str(refused.value)


def test_only_this_machine_is_pruned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--service", "sagemaker", "prune", "--yes"]) == 2
    assert capsys.readouterr().err == (
        "error: jobs prune deletes what lies on this machine; --service sagemaker has nothing here.\n"
    )

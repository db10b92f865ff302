"""Inventory of a state folder: sizes worked out by hand, links, and jobs in every state."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from experiments.pruning.inventory import ABANDONED_SECONDS, inventory
from tests.support.services.following import RUNS_UNTIL_STOPPED, ended, until, until_unsupervised
from tests.support.services.harness import LocalHarness
from training.services.launcher import submit
from training.services.local.job_folder import JobFolder
from training.state.deletion import measure

NOW = 1_800_000_000.0
KEY, COMMIT = "0f" * 16, "0f" * 20


def made(folder: Path, files: dict[str, int], changed: float = NOW - 100) -> Path:
    """Make a folder with files of these sizes, in bytes, all changed at one time."""
    for name, size in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * size)
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (changed, changed), follow_symlinks=False)
    return folder


def test_the_size_of_a_folder_excludes_targets_of_links(tmp_path: Path) -> None:
    outside = made(tmp_path / "outside", {"large": 10_000})
    folder = tmp_path / "folder"
    made(folder, {"a": 1, "b/c": 20, "b/d/e": 300})
    (folder / "file").symlink_to(outside / "large")
    (folder / "b" / "folder").symlink_to(outside)
    made(folder, {})
    os.utime(folder / "b" / "d" / "e", (NOW - 7, NOW - 7))
    assert measure(folder) == (321, NOW - 7)


def test_only_our_folders_are_listed(tmp_path: Path) -> None:
    for kind, name in (
        ("jobs", "j-1"),
        ("checkpoints", "j-1"),
        ("outputs", "j-1"),
        ("staged", KEY),
        ("sources", COMMIT),
        ("environments", KEY),
    ):
        made(tmp_path / kind / name, {"x": 5})
    for other in ("reports/g-1", "compile-cache/x", "docstrings", "tokenizers/x", "staged/mine", "jobs/a b", "slots"):
        made(tmp_path / other, {"x": 5})
    made(tmp_path, {"sweeps.db": 5, "staged/.x.lock": 0, "checkpoints/readme": 5})
    inventory_of = inventory(tmp_path, NOW)
    assert [(each.kind, each.name, each.size_bytes) for each in inventory_of.folders] == [
        ("jobs", "j-1", 5),
        ("checkpoints", "j-1", 5),
        ("outputs", "j-1", 5),
        ("staged", KEY, 5),
        ("sources", COMMIT, 5),
        ("environments", KEY, 5),
    ]
    assert not any(each.is_leftover for each in inventory_of.folders)
    assert (inventory_of.jobs, inventory_of.unreadable) == ({}, {"j-1", "a b"}), "work folders without a state"


def test_links_are_reported_and_not_followed(tmp_path: Path) -> None:
    outside = made(tmp_path / "outside", {"j-1/x": 5})
    home = tmp_path / "home"
    made(home / "checkpoints" / "j-1", {"x": 5})
    (home / "checkpoints" / "j-2").symlink_to(outside / "j-1")
    (home / "outputs").symlink_to(outside)
    inventory_of = inventory(home, NOW)
    assert [each.path for each in inventory_of.folders] == [home / "checkpoints" / "j-1"]
    assert inventory_of.links == (home / "checkpoints" / "j-2", home / "outputs")


@pytest.mark.parametrize(
    ("name", "age_seconds", "is_listed"),
    [
        (f"staged/.unfinished-{KEY}", ABANDONED_SECONDS, True),
        (f"staged/.unfinished-{KEY}", ABANDONED_SECONDS - 1, False),
        (f"sources/.unfinished-{KEY}", ABANDONED_SECONDS, True),
        ("jobs/.demo-1-a0r0-abcd_123", ABANDONED_SECONDS, True),
        ("jobs/.demo-1-a0r0-abcd_123", ABANDONED_SECONDS - 1, False),
        (f"checkpoints/.trash-{KEY}", 0.0, True),
        ("checkpoints/.mine", ABANDONED_SECONDS, False),
        ("jobs/.mine", ABANDONED_SECONDS, False),
    ],
)
def test_an_incomplete_folder_is_listed_once_abandoned(
    tmp_path: Path, name: str, age_seconds: float, is_listed: bool
) -> None:
    made(tmp_path / name, {"x": 5}, changed=NOW - age_seconds)
    inventory_of = inventory(tmp_path, NOW).folders
    assert [(each.path, each.is_leftover) for each in inventory_of] == ([(tmp_path / name, True)] if is_listed else [])


class TestJobs:
    def test_a_job_ends_when_its_supervisor_exits(self, harness: LocalHarness) -> None:
        job = submit(harness.service, harness.request(RUNS_UNTIL_STOPPED))
        begun = inventory(harness.root.resolve(), NOW).jobs["job"]
        assert not begun.has_ended
        assert json.loads(begun.request)["TrainingJobName"] == "job"
        job.stop()
        until(lambda: inventory(harness.root.resolve(), NOW).jobs["job"].has_ended)
        assert job.describe()["TrainingJobStatus"] == "Stopped"

    def test_a_supervised_job_has_not_ended(self, harness: LocalHarness) -> None:
        ended(submit(harness.service, harness.request("pass")))
        until_unsupervised(harness.root)
        lock = JobFolder(harness.job_folder()).lock_for_supervisor()
        assert not inventory(harness.root.resolve(), NOW).jobs["job"].has_ended
        os.close(lock)
        assert inventory(harness.root.resolve(), NOW).jobs["job"].has_ended

    @pytest.mark.parametrize(
        ("script", "wrote"),
        [
            ("pass", False),
            ("import os; open(os.environ['SM_OUTPUT_DATA_DIR'] + '/events.jsonl', 'w')", False),
            ("import os; open(os.environ['SM_OUTPUT_DATA_DIR'] + '/scores.csv', 'w')", True),
            ("import os; open(os.environ['SM_MODEL_DIR'] + '/weights', 'w')", False),
        ],
    )
    def test_output_files_of_a_script_are_detected(self, harness: LocalHarness, script: str, wrote: bool) -> None:
        ended(submit(harness.service, harness.request(script)))
        assert inventory(harness.root.resolve(), NOW).jobs["job"].wrote_output is wrote

    @pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null"])
    def test_a_job_with_a_corrupt_state_is_unreadable(self, harness: LocalHarness, text: str) -> None:
        ended(submit(harness.service, harness.request("pass")))
        (harness.job_folder() / "state.json").write_text(text)
        inventory_of = inventory(harness.root.resolve(), NOW)
        assert (inventory_of.jobs, inventory_of.unreadable) == ({}, {"job"})
        assert ("jobs", "job") in [(each.kind, each.name) for each in inventory_of.folders]
        (harness.job_folder() / "state.json").unlink()  # the fixture lists what runs

"""Damage one state file, then run every command that reads the state: each ends, and explains itself."""

from __future__ import annotations

import importlib
import os
import random
import sys
from pathlib import Path

from benchmarks.attacks.counts import Counts, Result
from benchmarks.support.damaged_state import (
    KINDS,
    MADE_AGAIN,
    TRAINED,
    WAYS,
    Place,
    by_script,
    kill_left,
    make_place,
    on_data,
)
from tests.support.fork_server.interpreter import forking_interpreter
from training.state.digests import digest

ATTEMPTS = 100
LIMIT_SECONDS = 200.0
SEED = 17
PRELOADED = (
    *("alembic.command", "mlflow.store.tracking.sqlalchemy_store", "pandas", "PIL.Image"),
    *("experiments.running.attach_group", "experiments.running.launch", "experiments.running.manage_jobs"),
    *("experiments.running.write_report", "models.logged.group_models", "tracking.groups.run_references"),
)
EXPECTED_CODES = (0, 1, 2)


def attack(folder: Path, attempts: int, seed: int = SEED) -> Counts:
    """Damage a file, run the commands and check what they print, `attempts` times."""
    counts, draw = Counts("damaged state file"), random.Random(seed)
    sys.executable = forking_interpreter()  # so that jobs start in milliseconds
    preload()
    place = make_place(folder)
    ways = [way for way in WAYS if way != "no rights" or not os.access(locked(folder), os.R_OK)]
    for number in range(attempts):
        place.restore()
        kind = list(KINDS)[number % len(KINDS)]
        path, way = draw.choice(place.files(kind)), draw.choice(ways)
        WAYS[way](path)
        attempt(counts, place, kind, path, way, folder / f"{number}.txt")
        kill_left(place)
    return counts


def locked(folder: Path) -> Path:
    """Return a file without rights, which root may read, unless it lacks the capability dac_override."""
    path = folder / "locked"
    path.touch()
    path.chmod(0)
    return path


def preload() -> None:
    """Import what the commands import."""
    for name in PRELOADED:
        importlib.import_module(name)


def attempt(counts: Counts, place: Place, kind: str, path: Path, way: str, output: Path) -> None:
    """Run the commands on the damaged state, and count the attempt."""
    name = path.relative_to(place.work).as_posix()
    target = next((job for job in place.jobs if job in name), place.jobs[0])
    groups = sorted({job.rsplit("-", 2)[0] for job in place.jobs})
    training = on_data(place, 3) if kind == "staged data" or "staged/" in name else by_script(place, 3)
    commands = [["jobs", "list"], ["jobs", "log", target], ["jobs", "stop", target], ["jobs", "prune"]]
    commands += [["attach", "--group", group] for group in groups] + [["report", "--group", target.rsplit("-", 2)[0]]]
    listing, faults = "", list[str]()
    for words in (*commands, training):
        before = output.stat().st_size if output.exists() else 0
        code = place.command(words, output, LIMIT_SECONDS)
        text = output.read_bytes()[before:].decode("utf-8", "replace")
        listing = listing or text
        faults += problems(words, code, text, must_succeed=words == ["jobs", "list"])
    # Files without rights are explained, and not deleted: they may be another user's.
    must_train = kind in MADE_AGAIN and way != "no rights"
    faults += wrong_training(place, training, code, text, must_train=must_train)
    rows = [line.split()[0] for line in listing.splitlines() if line.split()]
    others = [job for job in place.jobs if job not in name]
    counts.add(
        f"{way}: {name}",
        lost=any(job not in rows for job in others),
        doubled=any(rows.count(job) > 1 for job in place.jobs),
        output=output.read_text(errors="replace"),
        fault="; ".join(faults),
    )


def problems(words: list[str], code: int | None, text: str, *, must_succeed: bool) -> list[str]:
    """Return the faults of a command: a hang, an unknown exit code, or a failure without a sentence."""
    verb = " ".join(words[:2])
    if code is None:
        return [f"{verb} did not end"]
    if code not in EXPECTED_CODES or (must_succeed and code):
        return [f"{verb} ended with {code}: {text[-300:]}"]
    is_explained = "error: " in text or "failed" in text.lower()
    return [] if code == 0 or is_explained else [f"{verb} failed without a reason: {text[-300:]}"]


def wrong_training(place: Place, words: list[str], code: int | None, text: str, *, must_train: bool) -> list[str]:
    """Return the faults of the training: it used damaged inputs, or failed although they can be made again."""
    if code != 0:
        return [f"the training failed: {text[-300:]}"] if must_train else []
    if words == on_data(place, 3):
        kept = {each.name: digest(each) for each in (place.template / "home" / "staged").glob("[!.]*")}
        used = {each.name: digest(each) for each in (place.work / "home" / "staged").glob("[!.]*")}
        return [] if used == kept else ["the training used damaged data"]
    new = [each for each in (place.work / "home" / "jobs").glob("[!.]*") if each.name not in place.jobs]
    trained = [TRAINED in (each / "log.txt").read_text() for each in new]
    return [] if trained == [True] else ["the training did not run the script"]


def run(folder: Path) -> Result:
    """Damage 100 files."""
    counts = attack(folder, ATTEMPTS)
    note = (
        "Damage: one state file is emptied, cut off, overwritten, or replaced by other JSON, a folder or a link to "
        "itself. Then `jobs` lists, prints, stops and prunes, groups are attached to and reported on, and the same "
        "training runs again. Nothing may hang or print a traceback, and no other job may be missing."
    )
    return Result(counts=[counts], note=note)

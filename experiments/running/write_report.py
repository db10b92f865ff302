"""The verb `report`, and what `train` and `compare` end with."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TextIO

from experiments.running.write_overview import PATIENCE_SECONDS, overview
from reports.comparison.equal_work import KINDS, Kind
from reports.formats.markdown import markdown
from reports.formats.summary import summary_text
from reports.formats.terminal import print_report
from reports.model.report import Report
from reports.publish import log_separately, publish, tolerate_rejection, write
from reports.render import CompareOptions, render, render_chosen
from tracking.groups.group import Group, find_group
from tracking.queries.mlflow_ui import LOCAL, run_table
from tracking.queries.selected_jobs import chosen_jobs
from tracking.server.store import Store, open_store
from training.contract.errors import InputError, nearest
from training.state.home import home

FIELDS = ("experiment", "group", "runs", "overview", "baseline", "allow", "format")
FORMATS = ("text", "markdown", "json")
_NAMES = {"experiment": "an experiment's name", "group": "a group's id", "baseline": "an arm, a job or a run"}
"""Fields that nothing stands for when they are empty, as where a shell's variable is not set."""
AS_THE_JOBS_SAY = CompareOptions()


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a report is to be about, and how it is printed."""

    experiment: str = "demo"
    """Whose latest group is reported on, where neither `group` nor `runs` is given."""
    group: str | None = None
    """Id of a group."""
    runs: tuple[str, ...] = ()
    """Jobs of any groups: run ids, job names, or groups for all their jobs."""
    overview: bool = False
    """All groups of the MLflow experiment of that name, and what they cost."""
    wanted: CompareOptions = AS_THE_JOBS_SAY
    format: str = "text"
    """What is printed: a summary for people, Markdown, or JSON."""


def report(given: Mapping[str, str]) -> int:
    """Report on a group of tracked jobs, the latest of an experiment, or any jobs; see `Asked`."""
    asked = asked_of(given)
    if asked.overview:
        overview(asked.experiment)
        return 0
    store = open_store(patience_seconds=PATIENCE_SECONDS, otherwise="No report was made.")
    if asked.runs:
        _report_chosen(store, asked)
        return 0
    title = Path(asked.experiment).stem
    group = find_group(store, group_id=asked.group, experiment_name=title)
    name = group.experiment_name or title
    store.subject = f"the experiment of group '{group.id}'"
    made = render(store.client, group.id, name, asked.wanted)
    folder = home() / "reports" / group.id
    _tell(store, made, folder, group.experiment_id, asked.format)
    with tolerate_rejection(partial(print, file=_places(asked.format))):
        log_separately(store, group.experiment_id, name, [group.id], made, folder)
        if asked.wanted == AS_THE_JOBS_SAY:
            publish(store, group.run_id, made, folder, group.name)
    return 0


def report_group(store: Store, group: Group, title: str) -> None:
    """Write the page of a group's jobs and print what they tell, then log it; where that is refused, say so."""
    store.subject = f"the experiment of group '{group.id}'"
    made = render(store.client, group.id, title)
    folder = home() / "reports" / group.id
    _tell(store, made, folder, group.experiment_id, "text")
    with tolerate_rejection(print):
        publish(store, group.run_id, made, folder, group.name)


def asked_of(given: Mapping[str, str]) -> Asked:
    """Return what the fields of the command line ask for. Raises `InputError` with one sentence."""
    for name in given:
        if name not in FIELDS:
            raise InputError(f"unknown field '{name}' of report: {', '.join(FIELDS)}.{nearest(name, FIELDS)}")
        if not given[name].strip() and name in _NAMES:
            raise InputError(f"{name} is empty: it must be {_NAMES[name]}.")
    runs = _listed(given.get("runs", ""))
    if "runs" in given and not runs:
        raise InputError("runs is empty: name runs, jobs or groups, separated by commas.")
    if runs and "group" in given:
        raise InputError("runs and group exclude each other: a group may stand among the runs.")
    chosen = given.get("format", "text")
    if chosen not in FORMATS:
        raise InputError(f"format is '{chosen}': it must be one of {', '.join(FORMATS)}.{nearest(chosen, FORMATS)}")
    wanted = CompareOptions(baseline=given.get("baseline") or None, allowed=frozenset(_kinds(given.get("allow", ""))))
    is_overview = _is_true("overview", given.get("overview", "false"))
    if is_overview and (
        others := [name for name in FIELDS if name in given and name not in ("experiment", "overview")]
    ):
        raise InputError(f"overview and {others[0]} exclude each other: an overview is of all groups of an experiment.")
    return Asked(
        experiment=given.get("experiment", "demo"),
        overview=is_overview,
        group=given.get("group") or None,
        runs=runs,
        wanted=wanted,
        format=chosen,
    )


def _report_chosen(store: Store, asked: Asked) -> None:
    table = chosen_jobs(store.client, asked.runs)
    experiment_id = str(table["experiment_id"].iloc[0])
    title = str(store.call(store.client.get_experiment, experiment_id).name)
    made = render_chosen(store.client, table, title, asked.wanted, asked.runs)
    store.subject = f"experiment '{title}'"
    folder = home() / "reports" / f"runs-{sha256(' '.join(sorted(table['run_id'])).encode()).hexdigest()[:12]}"
    _tell(store, made, folder, experiment_id, asked.format)
    with tolerate_rejection(partial(print, file=_places(asked.format))):
        log_separately(store, experiment_id, title, asked.runs, made, folder)


def _tell(store: Store, made: Report, folder: Path, experiment_id: str, chosen: str) -> None:
    """Write the report to `folder` and print it; where others read that, its places stand on the other stream."""
    page = write(made, folder)
    places = _places(chosen)
    if chosen == "markdown":
        print(markdown(made))
    elif chosen == "json":
        print(summary_text(made))
    else:
        print()
        print_report(made)
        print()
    print(f"Report: {page}", file=places)
    print(f"MLflow: {_ui(store.uri, experiment_id)}", file=places, flush=True)


def _places(chosen: str) -> TextIO:
    return sys.stdout if chosen == "text" else sys.stderr


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _is_true(name: str, text: str) -> bool:
    if text not in {"true", "false"}:
        raise InputError(f"{name} is '{text}': it must be true or false.")
    return text == "true"


def _kinds(text: str) -> tuple[Kind, ...]:
    given = _listed(text)
    for name in given:
        if name not in KINDS:
            raise InputError(f"allow names '{name}': it may name {', '.join(KINDS)}.{nearest(name, KINDS)}")
    return tuple(kind for kind in KINDS if kind in given)


def _ui(uri: str, experiment_id: str) -> str:
    if uri.startswith(("http:", "https:", "arn:")):
        return run_table(uri, experiment_id)
    default = f"sqlite:///{Path.cwd() / 'mlflow.db'}"
    # A database's address is shown without its password, which the command needs.
    place_of_store = uri if uri.startswith("sqlite:") else '"$MLFLOW_TRACKING_URI"'
    command = "make ui" if uri == default else f"mlflow ui --backend-store-uri {place_of_store}"
    return f"`{command}`, then {run_table(LOCAL, experiment_id)}"

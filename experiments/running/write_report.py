"""Write the report of a group or of chosen runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from experiments.running.fail_on import exit_code, read_fail_on
from experiments.running.output import print_error, print_line
from experiments.running.write_overview import RETRY_SECONDS, overview
from reports.comparison.equal_work import KINDS, Kind
from reports.formats.figures import summary_text
from reports.formats.markdown import markdown
from reports.formats.terminal import print_report
from reports.model.report import Report
from reports.publish import log_separately, publish, tolerate_rejection, write
from reports.render import CompareOptions, render, render_chosen
from tracking.groups.group import Group, find_group
from tracking.queries.job_tables import chosen_jobs
from tracking.queries.mlflow_ui import LOCAL, run_table
from tracking.server.database import database_file
from tracking.server.store import Store, open_store
from training.contract.errors import InputError, nearest
from training.state.home import home

REPOSITORY = Path(__file__).resolve().parents[2]

FORMATS = ("text", "markdown", "json")
_NAMES = {"experiment": "an experiment's name", "group": "a group's id", "baseline": "an arm, a job or a run"}
"""Fields that must not be empty, with their meaning. An unset shell variable makes a field empty."""
DEFAULT = CompareOptions()


@dataclass(frozen=True, kw_only=True)
class ReportRequest:
    """Subject and format of a report."""

    experiment: str = "demo"
    """Experiment whose latest group is reported on; ignored if `group` or `runs` is set."""
    group: str | None = None
    """Id of the group to report on."""
    runs: tuple[str, ...] = ()
    """Run ids, job names and group ids. A group id selects all jobs of the group."""
    overview: bool = False
    """Report on all groups of the MLflow experiment of that name, with their cost."""
    options: CompareOptions = DEFAULT
    format: str = "text"
    """Printed format, one of FORMATS; `text` is a summary."""
    fail_on: frozenset[str] = frozenset()
    """Results for which the command fails; see `reports.comparison.report`."""


def report(fields: Mapping[str, str]) -> int:
    """Report on the latest group of an experiment, on another group, or on any jobs; see `ReportRequest`."""
    request = read_request(fields)
    if request.overview:
        overview(request.experiment)
        return 0
    store = open_store(echo=print_line, retry_seconds=RETRY_SECONDS, otherwise="No report was made.")
    rendered = _report_chosen(store, request) if request.runs else _report_one_group(store, request)
    return exit_code(rendered, request.fail_on)


def _report_one_group(store: Store, request: ReportRequest) -> Report:
    title = Path(request.experiment).stem
    group = find_group(store, group_id=request.group, experiment_name=title)
    name = group.experiment_name or title
    store.subject = f"the experiment of group '{group.id}'"
    rendered = render(store.client, group.id, name, request.options)
    folder = _folder(group.id, request.options)
    _print_report(store, rendered, folder, group.experiment_id, request.format)
    with tolerate_rejection(_location_printer(request.format)):
        log_separately(store, group.experiment_id, name, [group.id], rendered, folder)
        if request.options == DEFAULT:
            publish(store, group.run_id, rendered, folder, group.name)
    return rendered


def report_group(store: Store, group: Group, title: str) -> Report:
    """Write, print, log and return the report of a group. If the server refuses to log it, print the refusal."""
    store.subject = f"the experiment of group '{group.id}'"
    rendered = render(store.client, group.id, title)
    folder = _folder(group.id)
    _print_report(store, rendered, folder, group.experiment_id, "text")
    with tolerate_rejection(print_line):
        publish(store, group.run_id, rendered, folder, group.name)
    return rendered


def read_request(fields: Mapping[str, str]) -> ReportRequest:
    """Read the fields of the command line. Raises `InputError`."""
    for name, description in _NAMES.items():
        if not fields.get(name, description).strip():
            raise InputError(f"--{name} is empty: it must be {description}.")
    runs = _split_names(fields.get("runs", ""))
    if "runs" in fields and not runs:
        raise InputError("--runs is empty: name runs, jobs or groups, separated by commas.")
    if runs and "group" in fields:
        raise InputError("--runs and --group cannot be combined: --runs also accepts group ids.")
    chosen = fields.get("format", "text")
    if chosen not in FORMATS:
        raise InputError(f"--format is '{chosen}': it must be one of {', '.join(FORMATS)}.{nearest(chosen, FORMATS)}")
    options = CompareOptions(
        baseline=fields.get("baseline") or None, allowed=frozenset(_kinds(fields.get("allow", "")))
    )
    is_overview = _is_true("overview", fields.get("overview", "false"))
    if is_overview and (others := [name for name in fields if name not in ("experiment", "overview")]):
        raise InputError(f"--overview and --{others[0]} cannot be combined: an overview covers all groups.")
    return ReportRequest(
        experiment=fields.get("experiment", "demo"),
        overview=is_overview,
        group=fields.get("group") or None,
        runs=runs,
        options=options,
        format=chosen,
        fail_on=read_fail_on(fields.get("fail-on", "")),
    )


def _report_chosen(store: Store, request: ReportRequest) -> Report:
    table = chosen_jobs(store.client, request.runs)
    experiment_id = str(table["experiment_id"].iloc[0])
    title = str(store.call(store.client.get_experiment, experiment_id).name)
    rendered = render_chosen(store.client, table, title, request.options, request.runs)
    store.subject = f"experiment '{title}'"
    folder = _folder(f"runs-{_digest(*sorted(table['run_id']))}", request.options)
    _print_report(store, rendered, folder, experiment_id, request.format)
    with tolerate_rejection(_location_printer(request.format)):
        log_separately(store, experiment_id, title, request.runs, rendered, folder)
    return rendered


def _folder(name: str, options: CompareOptions = DEFAULT) -> Path:
    """Return the folder of a report. Each choice of options has its own, so none overwrites the group's own report."""
    suffix = "" if options == DEFAULT else f"-{_digest(str(options.baseline), *sorted(options.allowed))}"
    return home() / "reports" / f"{name}{suffix}"


def _digest(*texts: str) -> str:
    return sha256(" ".join(texts).encode()).hexdigest()[:12]


def _print_report(store: Store, rendered: Report, folder: Path, experiment_id: str, chosen: str) -> None:
    """Print the report, write it to `folder`, and print its location.

    It is printed first, because the folder may be one that cannot be written to. The location goes to standard error if
    standard output is Markdown or JSON for other programs.
    """
    print_location = _location_printer(chosen)
    if chosen == "markdown":
        print_line(markdown(rendered))
    elif chosen == "json":
        print_line(summary_text(rendered))
    else:
        print_line("")
        print_report(rendered)
        print_line("")
    print_location(f"Report: {write(rendered, folder)}")
    print_location(f"MLflow: {_ui_location(store.uri, experiment_id)}")


def _location_printer(chosen: str) -> Callable[[str], None]:
    return print_line if chosen == "text" else print_error


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _is_true(name: str, text: str) -> bool:
    if text not in {"true", "false"}:
        raise InputError(f"--{name} is '{text}': it must be true or false.")
    return text == "true"


def _kinds(text: str) -> tuple[Kind, ...]:
    names = _split_names(text)
    for name in names:
        if name not in KINDS:
            raise InputError(f"--allow contains '{name}': it may contain {', '.join(KINDS)}.{nearest(name, KINDS)}")
    return tuple(kind for kind in KINDS if kind in names)


def _ui_location(uri: str, experiment_id: str) -> str:
    if uri.startswith(("http:", "https:", "arn:")):
        return run_table(uri, experiment_id)
    # A database's address is shown without its password, so the command takes it from the variable.
    shown_uri = uri if uri.startswith("sqlite:") else '"$MLFLOW_TRACKING_URI"'
    command = f"mlflow ui --backend-store-uri {shown_uri}"
    if database_file(uri) == Path.cwd() / "mlflow.db":
        # The repository's own environment may not be active.
        command = "make ui" if Path.cwd() == REPOSITORY else "trainfare ui"
    return f"`{command}`, then {run_table(LOCAL, experiment_id)}"

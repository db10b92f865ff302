"""Write the report of a group, of chosen runs or of all groups of an experiment, and open MLflow's UI."""

from __future__ import annotations

import os
import signal
import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from experiments.running import options as read
from experiments.running.output import answer, exit_code, print_error, print_line, shows_text, write_answer
from reports.comparison.comparison import KINDS
from reports.formats.html import html_page
from reports.formats.terminal import print_report
from reports.formats.text import markdown, summary
from reports.model.report import Report
from reports.publish import log_separately, publish, separate_run, tolerate_rejection, write, write_files
from reports.render import CompareOptions, render, render_chosen, render_overview
from state.digests import digest
from state.home import home
from tracking.groups.group import Group, find_group
from tracking.queries.group_view import write_view
from tracking.queries.job_tables import chosen_jobs
from tracking.queries.mlflow_ui import LOCAL, experiment_to_show, require_database, run_table, serve
from tracking.server.store import Store, open_store
from training.contract.errors import InputError, NotAllowed

REPOSITORY = Path(__file__).resolve().parents[2]
RETRY_SECONDS = 10.0
"""Short, because a person waits, and the report can be repeated at any time."""
DEFAULT = CompareOptions()


def report(fields: Mapping[str, str]) -> int:
    """Report on the latest group of `experiment`, on the group `group`, or on any `runs`: run ids, jobs and groups.

    `overview` reports on all groups of an MLflow experiment. Returns 3 for a result that `fail-on` names.
    """
    read.check_not_empty(fields)
    runs = read.read_list(fields.get("runs", ""))
    if "runs" in fields and not runs:
        raise InputError("--runs is empty: name runs, jobs or groups, separated by commas.")
    if runs and "group" in fields:
        raise InputError("--runs and --group cannot be combined: --runs also accepts group ids.")
    allowed = read.read_choices("allow", fields.get("allow", ""), KINDS)
    options = CompareOptions(baseline=fields.get("baseline"), allowed=allowed)
    chosen, fail_on = fields.get("format", "text"), read.read_fail_on(fields)
    experiment = fields.get("experiment", "demo")
    if read.read_flag(fields, "overview"):
        if others := [name for name in fields if name not in ("experiment", "overview")]:
            raise InputError(f"--overview and --{others[0]} cannot be combined: an overview covers all groups.")
        overview(experiment)
        return 0
    store = open_store(echo=print_line, retry_seconds=RETRY_SECONDS, otherwise="No report was made.")
    if runs:
        return exit_code(_report_chosen(store, runs, options, chosen), fail_on)
    title = Path(experiment).stem
    group = find_group(store, group_id=fields.get("group"), experiment_name=title)
    rendered = report_group(store, group, group.experiment_name or title, options, chosen, is_repeated=True)
    return exit_code(rendered, fail_on)


def report_group(
    store: Store,
    group: Group,
    title: str,
    options: CompareOptions = DEFAULT,
    chosen: str = "text",
    *,
    is_repeated: bool = False,
) -> Report:
    """Write, print, log and return the report of a group. If the server refuses to log it, print the refusal.

    A report that `is_repeated` is also logged to a run of its own.
    """
    store.subject = f"the experiment of group '{group.id}'"
    rendered = render(store.client, group.id, title, options)
    folder = _folder(group.id, options)
    _print_report(store, rendered, folder, group.experiment_id, chosen, group.id)
    with tolerate_rejection(_location_printer(chosen)):
        if is_repeated:
            log_separately(store, group.experiment_id, title, [group.id], rendered, folder)
        if options == DEFAULT:
            publish(store, group.run_id, rendered, folder, group.name)
    return rendered


def _report_chosen(store: Store, runs: Sequence[str], options: CompareOptions, chosen: str) -> Report:
    table = chosen_jobs(store.client, runs)
    experiment_id = str(table["experiment_id"].iloc[0])
    title = str(store.call(store.client.get_experiment, experiment_id).name)
    rendered = render_chosen(store.client, table, title, options, runs)
    store.subject = f"experiment '{title}'"
    folder = _folder(f"runs-{digest(' '.join(sorted(table['run_id'])), 12)}", options)
    _print_report(store, rendered, folder, experiment_id, chosen)
    with tolerate_rejection(_location_printer(chosen)):
        log_separately(store, experiment_id, title, runs, rendered, folder)
    return rendered


def overview(name: str) -> None:
    """Print and write the overview of the MLflow experiment `name`, which may also be the path of an experiment file.

    The overview is also logged to the run that `mlflow run` opened for the command, if any.
    """
    store = open_store(echo=print_line, retry_seconds=RETRY_SECONDS, otherwise="No overview was made.")
    with Console(stderr=True).status("Reading the runs"):
        made, report = render_overview(store.client, name, Path(name).stem)
    if shows_text():
        print_report(report)
    folder = home() / "reports" / f"overview-{made.experiment_id}"
    write_files(folder, {"overview.html": html_page(report), "groups.csv": report.rows_csv})
    answer({"report": str(folder / "overview.html")})
    print_line(f"\nOverview: {folder / 'overview.html'}")
    if "MLFLOW_RUN_ID" in os.environ:
        store.subject = f"experiment '{made.name}'"
        with tolerate_rejection(print_line), separate_run(store, made.experiment_id, name, [made.name]) as run_id:
            store.call(store.client.log_artifacts, run_id, str(folder), "report")


def _folder(name: str, options: CompareOptions = DEFAULT) -> Path:
    """Return the folder of a report. Each choice of options has its own, so none overwrites the group's own report."""
    suffix = "" if options == DEFAULT else f"-{digest(' '.join((str(options.baseline), *sorted(options.allowed))), 12)}"
    return home() / "reports" / f"{name}{suffix}"


def _print_report(
    store: Store, rendered: Report, folder: Path, experiment_id: str, chosen: str, group: str | None = None
) -> None:
    """Print the report, write it to `folder`, and print its location.

    It is printed first, because the folder may be one that cannot be written to. The location goes to standard error if
    standard output is Markdown for other programs.
    """
    print_location = _location_printer(chosen)
    if chosen == "markdown":
        print_line(markdown(rendered))
    elif shows_text():
        print_line("")
        print_report(rendered)
        print_line("")
    page, ui = write(rendered, folder), _ui_location(store.uri, experiment_id, group)
    answer({**summary(rendered), "report": str(page), "mlflow": ui})
    print_location(f"Report: {page}")
    print_location(f"MLflow: {ui}")


def _location_printer(chosen: str) -> Callable[[str], None]:
    return print_line if chosen == "text" else print_error


def _ui_location(uri: str, experiment_id: str, group: str | None) -> str:
    if uri.startswith(("http:", "https:", "arn:")):
        return run_table(uri, experiment_id, group)
    # The repository's own environment may not be active.
    command = "make ui" if Path.cwd() == REPOSITORY else "trainfare ui"
    return f"`{command}`, then {run_table(LOCAL, experiment_id, group)}"


def ui(fields: Mapping[str, str]) -> int:
    """Show the runs of `--experiment NAME`, or of the latest command, in a browser.

    A tracking server has its own UI, which is opened. For a database file, MLflow's UI runs until Ctrl-C.
    """
    require_database()
    store = open_store(echo=print_line)
    experiment_id, run = experiment_to_show(store, fields.get("experiment"))
    group = run.data.tags["platform.group"] if run else None
    if run:  # its jobs may still be running
        with suppress(NotAllowed):
            write_view(store, run)
    if store.uri.startswith(("http:", "https:", "arn:")):
        _show(run_table(store.uri, experiment_id, group))
        return 0
    # SIGINT, too: a process that a script starts in the background ignores it by default.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    print_line(f"Starting MLflow on {store.uri}")
    try:
        log = home() / "mlflow-ui.log"
        serve(store, log, lambda address: _show(run_table(address, experiment_id, group), "Press Ctrl-C to stop it."))
    except KeyboardInterrupt:
        print_line("\nStopped MLflow's UI.")
    return 0


def _show(address: str, *more: str) -> None:
    print_line("\n".join((f"MLflow: {address}", *more)))
    answer({"mlflow": address})
    write_answer()
    # Without a display, webbrowser would open a text browser in this terminal. Remote editors set BROWSER.
    has_display = sys.platform != "linux" or any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")))
    if address.startswith("http") and has_display:
        webbrowser.open(address)

"""Open MLflow's UI at an experiment."""

from __future__ import annotations

import os
import signal
import sys
import webbrowser
from collections.abc import Mapping

from experiments.running.output import print_line
from state.home import home
from tracking.queries.mlflow_ui import experiment_to_show, require_database, run_table, serve
from tracking.server.store import open_store


def ui(fields: Mapping[str, str]) -> int:
    """Show the runs of `--experiment NAME`, or of the latest command, in a browser.

    A tracking server has its own UI, which is opened. For a database file, MLflow's UI runs until Ctrl-C.
    """
    require_database()
    store = open_store(echo=print_line)
    experiment_id = experiment_to_show(store, fields.get("experiment"))
    if store.uri.startswith(("http:", "https:", "arn:")):
        _show(run_table(store.uri, experiment_id))
        return 0
    # SIGINT, too: a process that a script starts in the background ignores it by default.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    print_line(f"Starting MLflow on {store.uri}")
    try:
        log = home() / "mlflow-ui.log"
        serve(store, log, lambda address: _show(run_table(address, experiment_id), "Press Ctrl-C to stop it."))
    except KeyboardInterrupt:
        print_line("\nStopped MLflow's UI.")
    return 0


def _show(address: str, *more: str) -> None:
    print_line("\n".join((f"MLflow: {address}", *more)))
    if address.startswith("http") and _has_display():
        webbrowser.open(address)


def _has_display() -> bool:
    # Without a display, webbrowser would open a text browser in this terminal. Remote editors set BROWSER.
    return sys.platform != "linux" or any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")))

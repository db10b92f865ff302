"""The verb `ui`: MLflow's UI, open on the right experiment."""

from __future__ import annotations

import os
import signal
import sys
import webbrowser
from collections.abc import Mapping

from tracking.queries.mlflow_ui import experiment_to_show, require_database, run_table, serve
from tracking.server.store import open_store
from training.contract.errors import InputError, nearest
from training.state.home import home


def ui(given: Mapping[str, str]) -> int:
    """Show the runs of `--experiment NAME`, or those of the latest command, in a browser.

    A tracking server has its UI already; on a database MLflow's own runs until Ctrl-C.
    """
    fields = dict(given)
    name = fields.pop("experiment", None)
    for unknown in fields:
        raise InputError(f"unknown field '{unknown}' of ui: experiment.{nearest(unknown, ['experiment'])}")
    require_database()
    store = open_store()
    experiment_id = experiment_to_show(store, name)
    if store.uri.startswith(("http:", "https:", "arn:")):
        _show(run_table(store.uri, experiment_id))
        return 0
    # SIGINT too: a process that a script put in the background is born ignoring it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    print(f"Starting MLflow on {store.uri}", flush=True)
    try:
        serve(
            store, home() / "mlflow-ui.log", lambda address: _show(run_table(address, experiment_id), "Ctrl-C ends it.")
        )
    except KeyboardInterrupt:
        print("\nMLflow's UI has ended.")
    return 0


def _show(address: str, *more: str) -> None:
    print(f"MLflow: {address}", *more, sep="\n", flush=True)
    if address.startswith("http") and _has_display():
        webbrowser.open(address)


def _has_display() -> bool:
    # Elsewhere webbrowser would take over the terminal with a browser for text. BROWSER is what remote editors set.
    return sys.platform != "linux" or any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")))

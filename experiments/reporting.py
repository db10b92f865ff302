"""The verb `report`, and what `train` and `compare` end with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments.overview import overview
from tracking.group import Group, find_group
from tracking.publish import publish
from tracking.report.render import render
from tracking.report.terminal import print_report
from tracking.store import Store, open_store
from training.errors import InputError, nearest
from training.home import home


def report(given: Mapping[str, str]) -> int:
    """Report again on a group of tracked jobs: `--group ID`, or the latest of `--experiment NAME`.

    With `--overview true` on all groups of the MLflow experiment of that name.
    """
    fields = dict(given)
    group_id = fields.pop("group", None)
    name = fields.pop("experiment", "demo")
    is_overview = _is_true("overview", fields.pop("overview", "false"))
    for unknown in fields:
        known = ["group", "experiment", "overview"]
        raise InputError(f"unknown field '{unknown}' of report: {', '.join(known)}.{nearest(unknown, known)}")
    if is_overview and group_id:
        raise InputError("overview and group exclude each other: an overview is of all groups of an experiment.")
    if is_overview:
        overview(name)
        return 0
    store = open_store()
    report_group(store, find_group(store, group_id=group_id, experiment_name=Path(name).stem), Path(name).stem)
    return 0


def report_group(store: Store, group: Group, title: str) -> None:
    """Print the comparison, and log and write its page."""
    made = render(store.client, group.id, title)
    page = publish(store, group, made, home() / "reports" / group.id)
    print()
    print_report(made)
    print(f"\nReport: {page}")
    print(f"MLflow: {_ui(store.uri, group)}")


def _is_true(name: str, text: str) -> bool:
    if text not in {"true", "false"}:
        raise InputError(f"{name} is '{text}': it must be true or false.")
    return text == "true"


def _ui(uri: str, group: Group) -> str:
    # Without the workflow type the UI opens on its pages for traces.
    place = f"/#/experiments/{group.experiment_id}/runs?workflowType=machine_learning"
    if uri.startswith("http"):
        return uri.rstrip("/") + place
    if uri.startswith("arn:"):
        return f"{uri}, opened from SageMaker Studio, then {place}"
    default = f"sqlite:///{Path.cwd() / 'mlflow.db'}"
    # A database's address is shown without its password, which the command needs.
    place_of_store = uri if uri.startswith("sqlite:") else '"$MLFLOW_TRACKING_URI"'
    command = "make ui" if uri == default else f"mlflow ui --backend-store-uri {place_of_store}"
    return f"`{command}`, then http://127.0.0.1:5000{place}"

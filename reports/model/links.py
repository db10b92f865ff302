"""Addresses of runs in the tracking server's UI."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def run_url(tracking_uri: str, experiment_id: str, run_id: str) -> str | None:
    """Return the address of a run's page without credentials; None for a store that has no web address."""
    parts = urlsplit(tracking_uri)
    if parts.scheme not in ("http", "https"):
        return None
    base = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
    # Without the workflow type MLflow shows the page in its section for traces.
    return f"{base}/#/experiments/{experiment_id}/runs/{run_id}?workflowType=machine_learning"

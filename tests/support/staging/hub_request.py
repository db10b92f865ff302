"""Staging request for a data set of the Hub."""

from __future__ import annotations

from pathlib import Path

from tests.support.staging.tables import MODEL
from training.staging.sources.request import Columns, Data, HubData, Splits, StagingRequest


def request_for(folder: Path | str, *, columns: Columns | None = None, **splits: str | None) -> StagingRequest:
    hub = HubData(name=str(folder), splits=Splits(**splits))  # type: ignore[arg-type]
    return StagingRequest(data=Data(hub=hub, columns=columns or Columns()), model=MODEL, max_length=16)

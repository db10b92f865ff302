"""Send a worker's heartbeats for its trials from a separate thread, so that a slow job does not delay them."""

from __future__ import annotations

import threading
from contextlib import suppress
from types import TracebackType

from optuna.storages import RDBStorage


class Heartbeats:
    """Context manager that sends a heartbeat for every trial in `trial_ids` at the storage's interval."""

    def __init__(self, rdb: RDBStorage) -> None:
        self._rdb = rdb
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeats", daemon=True)
        self.trial_ids: set[int] = set()

    def __enter__(self) -> Heartbeats:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end.set()
        self._thread.join(timeout=5.0)  # a database that does not answer must not delay the worker's end

    def _beat(self) -> None:
        interval_seconds = self._rdb.get_heartbeat_interval() or 1
        while not self._end.wait(interval_seconds):
            for trial_id in list(self.trial_ids):
                # After any error, the next beat tries again. The worker's loop reports a lost database.
                with suppress(Exception):
                    self._rdb.record_heartbeat(trial_id)
        self._rdb.remove_session()

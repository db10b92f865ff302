"""Sample system metrics of this machine during a local job, under MLflow's own `system/*` names.

MLflow's monitor thread stops at the first call that the server does not answer. The thread here only samples; the
recorder logs the points together with the job's own metrics.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from mlflow.entities import Metric
from mlflow.system_metrics.metrics.base_metrics_monitor import BaseMetricsMonitor
from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor

from state.locks import exclusive_lock
from training.contract.errors import JobNotFound
from training.contract.service import Service


class SystemSampler:
    """Sampling of this machine's metrics for one job by one of its followers; nothing for a job elsewhere.

    Of all launchers that follow the job, the one that holds the lock samples. When it ends, another one continues.
    """

    def __init__(self, service: Service, job_name: str) -> None:
        self._service, self._job_name = service, job_name
        self._descriptor: int | None = None
        self._points: list[Metric] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="system-metrics", daemon=True)

    def drain(self) -> list[Metric]:
        """Return the points sampled since the last call; none while another launcher samples."""
        if not self._service.traits.runs_here:
            return []
        if self._descriptor is None:
            try:
                log = Path(self._service.log_location(self._job_name))
                self._descriptor = exclusive_lock(log.with_name("sampled.lock"))
            except (BlockingIOError, FileNotFoundError, JobNotFound):  # another launcher samples, or it is deleted
                return []
            self._thread.start()
        with self._lock:
            points, self._points = self._points, []
        return points

    def close(self) -> None:
        """Stop sampling, and let another launcher sample."""
        if self._descriptor is not None and not self._closed.is_set():
            self._closed.set()
            self._thread.join()
            os.close(self._descriptor)

    def _run(self) -> None:
        interval_seconds = float(os.environ.get("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", 5))
        monitors: list[BaseMetricsMonitor] = [CPUMonitor(), DiskMonitor(), NetworkMonitor()]
        with suppress(Exception):  # pynvml or a GPU is missing: mlflow raises several kinds of errors
            monitors.append(GPUMonitor())
        started = time.monotonic()
        while not self._closed.wait(interval_seconds):
            now_ms, step = int(time.time() * 1000), round(time.monotonic() - started)
            for monitor in monitors:
                monitor.collect_metrics()
                values = monitor.aggregate_metrics()
                monitor.clear_metrics()
                with self._lock:
                    self._points += [Metric(f"system/{name}", each, now_ms, step) for name, each in values.items()]

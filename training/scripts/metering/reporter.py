"""Runs a script in a child process, and prints as events what its meter counts and what it logs to a tracker.

Standard library only; Python 3.8 and later. `training/contract/events.py` describes the events. Only the first of a
job's processes prints them. It reads the meter's files, the store of the script's own MLflow, and, if that is empty,
the TensorBoard files in the output. The store is the job's own folder: no server and no credential reaches the script.
"""

import ctypes
import glob
import json
import math
import os
import re
import runpy
import signal
import struct
import subprocess
import sys
import tarfile
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
EVENT_PREFIX = "trainfare-event "
FIRST_SECONDS, INTERVAL_SECONDS = 1.0, 10.0
"""Pauses between two reports, in the first half minute and later."""
TRACKING_VARIABLES = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME")
ARTIFACTS_FILE = "mlflow-artifacts.tar.gz"
MAX_ARTIFACT_BYTES = 2**28
EVENT_FILES = "**/events.out.tfevents*"
PR_SET_PDEATHSIG = 1

COUNTED = ("batches", "samples", "tokens")
Point = Tuple[str, float, int, float]
"""Name, value, step, and time in seconds since the epoch."""


def run(line: List[str], settings: Dict[str, Any]) -> int:
    """Run the command of a script to its end, and return its exit code; negative if a signal killed it."""
    base = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
    folder = os.path.join(base, "trainfare")
    os.makedirs(folder, exist_ok=True)
    paths = [HERE] + [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    os.environ.update(TRAINFARE_METER_DIR=folder, PYTHONPATH=os.pathsep.join(paths))
    if int(os.environ.get("RANK") or 0) != 0:
        os.execv(line[0], line)
    store = None
    if not os.environ.get("MLFLOW_TRACKING_URI"):
        store = os.path.join(folder, "mlruns-%d" % time.time_ns())
        os.environ.update(MLFLOW_TRACKING_URI="file://" + store, MLFLOW_ALLOW_FILE_STORE="true")
        for name in TRACKING_VARIABLES:
            os.environ.pop(name, None)
    return follow(line, Reporter(folder, store, float(settings.get("samples_per_step", 0))))


def follow(line: List[str], reporter: "Reporter") -> int:
    """Start the command in a process group of its own, pass SIGTERM on to it, and report until it has ended."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})

    def prepare() -> None:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())

    process = subprocess.Popen(line, preexec_fn=prepare)
    started = time.monotonic()
    while process.poll() is None:
        pause = FIRST_SECONDS if time.monotonic() - started < 30 else INTERVAL_SECONDS
        caught = signal.sigtimedwait({signal.SIGTERM, signal.SIGCHLD}, pause)
        if caught is None:
            reporter.report()
        elif caught.si_signo == signal.SIGTERM:
            os.killpg(process.pid, signal.SIGTERM)
    reporter.report(is_last=True)
    return process.returncode


def end(code: int) -> None:
    """End this process as its child ended."""
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.kill(os.getpid(), -code)
    sys.exit(code)


class Reporter:
    """Prints the events of one start of a job."""

    def __init__(self, folder: str, store: Optional[str], samples_per_step: float = 0.0) -> None:
        self._folder, self._samples_per_step = folder, samples_per_step
        self._read = runpy.run_path(os.path.join(HERE, "meter.py"), run_name="trainfare_meter")["read"]
        self._begun, self._count = time.time(), 0
        self._tracked = Tracked(store)
        self._counts: Dict[str, Any] = {}
        self._peaks: Dict[str, float] = {}
        """Peak of the resident memory of each process so far, in GiB."""
        self._emit("start")

    def report(self, is_last: bool = False) -> None:
        """Print what is new. An error of this process never ends the script, which would die with it."""
        failed = {}
        try:
            for event, fields, when in self._tracked.news():
                self._emit(event, when, **fields)
            if is_last and self._tracked.pack_artifacts():
                self._emit("logged", artifacts=True)
        except Exception as error:  # such as a file of TensorBoard that another program damaged
            failed["tracker"] = repr(error)[:200]
        try:
            counts = self.counts()
        except Exception as error:
            counts, failed["meter"] = dict(self._counts), repr(error)[:200]
        if failed:
            counts["reasons"] = dict(counts.get("reasons", {}), **failed)
        if counts and counts != self._counts:
            self._counts = counts
            self._emit("meter", **counts)

    def counts(self) -> Dict[str, Any]:
        """Return the counts of this start; empty if no process has an optimizer.

        Steps are those of the first process. Samples and tokens are added over all processes; those of other instances
        are taken to be as many.
        """
        records, reasons = self._records()
        if not records:
            return {}
        first = [each for each in records if each["rank"] == min(other["rank"] for other in records)]
        processes = max(each["processes"] for each in records)
        share = processes / len({each["rank"] for each in records})
        longest = max(first, key=lambda each: each["steps"])
        counts = {name: sum(each[name] for each in first) for name in ("steps", "trainings", "skipped_steps", "errors")}
        counts.update({name: share * sum(each["done_" + name] for each in records) for name in COUNTED})
        counts.update({name: longest[name] for name in ("parameters", "trainable_parameters")})
        counts["processes"] = processes
        counts["gpu_peak_gib"] = max(each["gpu_peak_bytes"] for each in records) / 2**30
        counts["resident_gib"] = share * sum(self._peaks.values())
        starts = [each["first_step_time"] for each in first if each["first_step_time"]]
        if starts:
            counts["seconds_before_first_step"] = min(starts) - self._begun
        if longest["warm_time"] and longest["steps"] > longest["warm_steps"]:
            evaluated = longest["done_evaluation_seconds"] - longest["warm_evaluation_seconds"]
            by_clock = longest["last_step_time"] - longest["warm_time"] - evaluated
            counts["steady_seconds"] = longest["gpu_seconds"] or by_clock
            counts["steady_steps"] = longest["steps"] - longest["warm_steps"]
            for name in COUNTED:
                counts["steady_" + name] = processes * (longest["done_" + name] - longest["warm_" + name])
        if self._samples_per_step:
            counts["samples"] = self._samples_per_step * counts["steps"]
            counts["steady_samples"] = self._samples_per_step * counts.get("steady_steps", 0.0)
            reasons.pop("samples", None)
        return dict(counts, reasons=reasons)

    def _records(self) -> Tuple[List[Dict[str, float]], Dict[str, str]]:
        """Return the counts of each process of this start, and why something is not countable."""
        records: List[Dict[str, float]] = []
        reasons: Dict[str, str] = {}
        for path in sorted(glob.glob(os.path.join(self._folder, "*.meter"))):
            pid, _, begun = os.path.basename(path)[: -len(".meter")].partition("-")
            if float(begun) / 1e9 < self._begun:
                continue  # of an earlier start on this disk
            with open(path, "rb") as file:
                records.append(self._read(file.read()))
            self._peaks[path] = max(self._peaks.get(path, 0.0), resident_gib(pid))
            if os.path.exists(path + ".json"):
                with open(path + ".json") as reasons_file:
                    reasons.update(json.load(reasons_file))
        return records, reasons

    def _emit(self, kind: str, when: Optional[float] = None, **fields: Any) -> None:
        event = dict(fields, event=kind, seq=self._count, time=time.time() if when is None else when)
        self._count += 1
        # One write, on a line of its own: the script may have left its line open.
        os.write(1, ("\n%s%s\n" % (EVENT_PREFIX, json.dumps(event))).encode())


def resident_gib(pid: str) -> float:
    """Return the peak of a process's resident memory in GiB; 0 if it has ended."""
    try:
        with open("/proc/%s/status" % pid) as file:
            return int(re.findall(r"VmHWM:\s+(\d+) kB", file.read())[0]) / 2**20
    except (OSError, IndexError):
        return 0.0


class Tracked:
    """Reader of the script's MLflow store or, while that has no metrics, of its TensorBoard files."""

    def __init__(self, store: Optional[str]) -> None:
        self._store, self._begun = store, time.time()
        self._read_bytes: Dict[str, int] = {}
        self._told: Dict[str, Any] = {}
        self._uses_mlflow = False

    def news(self) -> Iterator[Tuple[str, Dict[str, Any], Optional[float]]]:
        """Yield new events: kind, fields and time, None for now. Points come in order of time."""
        runs = self._runs()
        points: List[Point] = []
        described: Dict[str, Any] = {}
        if runs:
            # A run without parameters continues the one before: Trainer's evaluation after its training is one.
            with_parameters = [each for each in runs[1:] if os.path.isdir(os.path.join(each, "params"))]
            own = [each for each in runs if each not in with_parameters]
            points = sorted((point for each in own for point in self._mlflow_points(each)), key=lambda each: each[3])
            described = {kind: dict(_texts(os.path.join(runs[0], kind))) for kind in ("params", "tags")}
            described["runs"] = 1 + len(with_parameters)
            self._uses_mlflow = self._uses_mlflow or bool(points)
        if not self._uses_mlflow:
            points = sorted(self._tensorboard_points(), key=lambda each: each[3])
        if described != self._told and any(described.values()):
            self._told = described
            yield "logged", described, None
        for name, value, step, when in points:
            if math.isfinite(when):
                yield "metric", {"step": step, "values": {name: value}}, when

    def _runs(self) -> List[str]:
        """Return the folders of the runs that are part of no other run, in the order of their start."""
        found = []
        for meta in glob.glob(os.path.join(self._store, "*", "*", "meta.yaml")) if self._store else ():
            folder = os.path.dirname(meta)
            with open(meta) as file:
                started = re.findall(r"^start_time: (\d+)", file.read(), re.MULTILINE)
            if started and not os.path.exists(os.path.join(folder, "tags", "mlflow.parentRunId")):
                found.append((int(started[0]), folder))
        return [folder for _, folder in sorted(found)]

    def pack_artifacts(self) -> bool:
        """Pack the files that the script logged as artifacts into the job's output. Return whether there are any."""
        root = os.path.join((self._runs() or [""])[0], "artifacts")
        files = [path for path in glob.glob(os.path.join(root, "**"), recursive=True) if os.path.isfile(path)]
        size = sum(map(os.path.getsize, files))
        if size > MAX_ARTIFACT_BYTES:
            raise ValueError("its artifacts of %d MiB are more than %d MiB" % (size >> 20, MAX_ARTIFACT_BYTES >> 20))
        if files:
            with tarfile.open(os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], ARTIFACTS_FILE), "w:gz") as tar:
                for path in files:
                    tar.add(path, os.path.relpath(path, root))
        return bool(files)

    def _mlflow_points(self, run: str) -> Iterator[Point]:
        root = os.path.join(run, "metrics")
        for path in sorted(glob.glob(os.path.join(root, "**"), recursive=True)):
            if os.path.isfile(path):
                for line in self._new_bytes(path).decode("utf-8", "replace").splitlines():
                    when, value, step = line.split()[:3]
                    yield os.path.relpath(path, root), float(value), int(step), int(when) / 1000

    def _tensorboard_points(self) -> Iterator[Point]:
        folders = [os.environ.get(name, "") for name in ("SM_OUTPUT_DATA_DIR", "SM_MODEL_DIR")]
        folders += [os.path.join(os.getcwd(), name) for name in ("runs", "logs", "lightning_logs")]
        for folder in filter(None, folders):
            for path in sorted(glob.glob(os.path.join(folder, EVENT_FILES), recursive=True)):
                if os.path.getmtime(path) >= self._begun:
                    yield from scalars(self._new_bytes(path, whole_records=True))

    def _new_bytes(self, path: str, whole_records: bool = False) -> bytes:
        """Return what was added to a file of lines, or of TensorBoard's records, without an unfinished end."""
        start = self._read_bytes.get(path, 0)
        with open(path, "rb") as file:
            file.seek(start)
            content = file.read()
        if whole_records:
            used = 0
            for size in record_sizes(content):
                used += size
        else:
            used = content.rfind(b"\n") + 1
        self._read_bytes[path] = start + used
        return content[:used]


def _texts(folder: str) -> Iterator[Tuple[str, str]]:
    """Yield the parameters or tags of a run, without MLflow's own tags."""
    for path in sorted(glob.glob(os.path.join(folder, "**"), recursive=True)):
        name = os.path.relpath(path, folder)
        if os.path.isfile(path) and not name.startswith("mlflow."):
            with open(path, encoding="utf-8", errors="replace") as file:
                yield name, file.read(6_000)


def record_sizes(content: bytes) -> Iterator[int]:
    """Yield the sizes of the whole records of a TFRecord file: length (8 bytes), checksum (4), data, checksum (4)."""
    at = 0
    while at + 12 <= len(content):
        size = 16 + struct.unpack_from("<Q", content, at)[0]
        if at + size > len(content):
            return
        yield size
        at += size


def scalars(content: bytes) -> Iterator[Point]:
    """Yield the scalars of TensorBoard's event records (tensorflow/core/util/event.proto, framework/summary.proto)."""
    at = 0
    for size in record_sizes(content):
        event = dict(_fields(content[at + 12 : at + size - 4]))
        at += size
        when = struct.unpack("<d", event[1])[0] if 1 in event else 0.0
        for number, value in _fields(event.get(5, b"")):
            parts = dict(_fields(value)) if number == 1 else {}
            if 1 in parts and 2 in parts:
                yield parts[1].decode("utf-8", "replace"), struct.unpack("<f", parts[2])[0], event.get(2, 0), when


def _fields(content: bytes) -> Iterator[Tuple[int, Any]]:
    """Yield the fields of a protobuf message: number, and an integer (varint) or bytes."""
    at = 0
    value: Any
    while at < len(content):
        key, at = _varint(content, at)
        if key & 7 == 0:
            value, at = _varint(content, at)
        else:
            size, at = _varint(content, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value, at = content[at : at + size], at + size
        yield key >> 3, value


def _varint(content: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at

"""One simulated SageMaker training job. The local service runs it on data from S3. Its log and artifacts are uploaded
as on SageMaker."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from tests.support.aws.api import Response
from tests.support.aws.logs import LogStream
from tests.support.aws.machine import Machine, job_description, merged, role_access
from tests.support.aws.objects import Objects, SyncedFolder, downloaded, packed
from tests.support.aws.service_rules import machine_types
from tests.support.ports import free_port
from training.contract.errors import InputError
from training.contract.service import TERMINAL_STATUSES, Description

LOOK_SECONDS, SHARE_SECONDS = 0.05, 0.02
"""Time between two looks at a job, and extra time for each thread when hundreds of jobs run."""
SPOT_SHARE = 0.3
"""Share of a spot job's seconds that is billed."""
BEFORE_INTERRUPTION = frozenset({"Starting", "Downloading", "Training", "Interrupted"})
CAPACITY = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a different ML instance type."
)


class TrainingJob:
    """One job, in its own thread."""

    def __init__(self, request: dict[str, Any], root: Path, clients: Mapping[str, Any], faults: JobFaults) -> None:
        self.request, self._home, self._clients, self._faults = request, root, clients, faults
        self._objects = Objects(clients["s3"])
        self._types = [each for each in machine_types(request) if each not in faults.no_capacity]
        self._created = self._starting = datetime.now(UTC)
        self._began: datetime | None = None
        self._earlier: list[dict[str, Any]] = []
        """Transitions of interrupted starts."""
        self._uploaded: datetime | None = None
        self._failed: str | None = None
        self._stop_requested = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._artifact: str | None = None
        self.pool = WarmPool(bool(self._resources.get("KeepAlivePeriodInSeconds")))
        self._lock = threading.RLock()
        self._take_machines()

    def _take_machines(self) -> None:
        """Create empty instances for the next start."""
        self._root = self._home / f"start-{len(self._earlier)}"
        self._machines = [Machine(self._root, self.name, at) for at in range(int(self._resources["InstanceCount"]))]
        since_ms = int(1000 * self._starting.timestamp())
        self._streams = [
            LogStream(self._clients["logs"], f"{self.name}/{machine.host}-{since_ms}") for machine in self._machines
        ]
        self._synced: list[SyncedFolder] = []
        self._downloading: datetime | None = None

    @property
    def name(self) -> str:
        return str(self.request["TrainingJobName"])

    @property
    def base(self) -> Path:
        """Folder that stands for `/opt/ml` on the first instance."""
        return self._machines[0].base

    @property
    def ended(self) -> bool:
        return self._uploaded is not None

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(60)

    def stop(self) -> Response:
        self._stop_requested.set()
        return {}

    def describe(self) -> Description:
        """Return the description. All its fields are set at all times."""
        described = {name: value for name, value in self.request.items() if name != "Tags"}
        described |= {"TrainingJobArn": f"arn:aws:sagemaker:us-east-1:111122223333:training-job/{self.name}"}
        described |= {"CreationTime": self._created}
        if self._types:
            chosen = {"SelectedInstanceType": self._types[0]} if "InstancePreferences" in self._resources else {}
            described["ResourceConfig"] = {**self._resources, **chosen}
        with self._lock:
            described |= {"ModelArtifacts": {"S3ModelArtifacts": self._artifact or ""}}
            return described | self._progress() | self.pool.description(self._uploaded)

    @property
    def _resources(self) -> dict[str, Any]:
        return dict(self.request["ResourceConfig"])

    def _progress(self) -> dict[str, Any]:
        """Return the fields of the description that change."""
        local = self._local()
        transitions = [*self._earlier, transition("Starting", self._starting, self._downloading)]
        if self._downloading:
            transitions += after_start(local, self._downloading)
        final = self._final(local)
        if self._uploaded is None:
            running = [each for each in transitions if each["Status"] not in {"Completed", "Failed", "Stopped"}]
            transitions = running or transitions
            transitions[-1].pop("EndTime", None)
        elif final:
            transitions = [each for each in transitions if each["Status"] not in {final, "MaxRuntimeExceeded"}]
            transitions[-1]["EndTime"] = self._uploaded
            transitions.append(transition(final, self._uploaded, self._uploaded))
        changed = status(final) if self._uploaded and final else "Stopping" if self._stop_requested.is_set() else None
        return {
            "TrainingJobStatus": changed or "InProgress",
            "SecondaryStatus": transitions[-1]["Status"],
            "SecondaryStatusTransitions": transitions,
            "LastModifiedTime": transitions[-1]["StartTime"],
            **self._reason(local),
            **self._billed(),
            "FinalMetricDataList": self._final_metrics() if self._uploaded else [],
        }

    def _final_metrics(self) -> list[dict[str, Any]]:
        """Return the last value of each metric that the request defines, in the log of the first instance."""
        definitions = self.request["AlgorithmSpecification"].get("MetricDefinitions", [])
        lines = self._machines[0].lines() if definitions else []
        found = {
            each["Name"]: match
            for each in definitions
            for match in [next(filter(None, (re.search(each["Regex"], line) for line in reversed(lines))), None)]
        }
        return [{"MetricName": name, "Value": float(match[1])} for name, match in found.items() if match]

    def _final(self, local: Description) -> str | None:
        if self._failed:
            return "Failed"
        if not local:
            return "Stopped" if self._uploaded else None
        return str(local["SecondaryStatus"])

    def _reason(self, local: Description) -> dict[str, str]:
        reason = self._failed or (local.get("FailureReason") if self._uploaded else None)
        return {"FailureReason": reason} if reason else {}

    def _billed(self) -> dict[str, Any]:
        if not self._began:
            return {}
        if not self._uploaded:
            return {"TrainingStartTime": self._began}
        seconds = max(1, round((self._uploaded - self._began).total_seconds()))
        billable = max(1, round(SPOT_SHARE * seconds)) if self.request.get("EnableManagedSpotTraining") else seconds
        billable = self._faults.billable_seconds.get(self.name, billable)
        times = {"TrainingTimeInSeconds": seconds, "BillableTimeInSeconds": billable}
        if (datetime.now(UTC) - self._uploaded).total_seconds() < self._faults.billing_seconds:
            times = {}
        return {"TrainingStartTime": self._began, "TrainingEndTime": self._uploaded, **times}

    def _local(self) -> Description:
        return job_description([machine.describe() for machine in self._machines])

    def _run(self) -> None:
        try:
            if not self._types:
                self._failed = CAPACITY
                return
            self._begin()
            while not self._watch():
                self._interrupt()
                self._begin()
            self._upload()
        except InputError as error:
            self._failed = f"ClientError: {error}"
        except ClientError as error:
            self._failed = f"ClientError: Data download failed: {error}"
        finally:
            with self._lock:  # a description that has looked at the machines before must not see this
                self._uploaded = datetime.now(UTC)

    def _begin(self) -> None:
        self._downloading = datetime.now(UTC)
        self._began = self._began or self._downloading
        variables = {"TRAINFARE_STOP_GRACE_SECONDS": str(self._faults.grace_seconds)}
        variables |= role_access(self._clients["s3"])
        self._start_machines(downloaded(self.request, self._objects, self._root, variables))

    def _interrupt(self) -> None:
        """Record a spot interruption, and prepare the next start."""
        interrupted = datetime.now(UTC)
        with self._lock:
            transitions = self._progress()["SecondaryStatusTransitions"]
            transitions = [each for each in transitions if each["Status"] in BEFORE_INTERRUPTION]
            transitions[-1]["EndTime"] = interrupted
            self._starting = datetime.now(UTC)
            self._earlier = [*transitions, transition("Interrupted", interrupted, self._starting)]
            self._take_machines()

    def _start_machines(self, request: Mapping[str, Any]) -> None:
        port = free_port()
        for machine in self._machines:
            # Each instance has its own copy of the checkpoints.
            if "CheckpointConfig" in request:
                uri = str(request["CheckpointConfig"]["S3Uri"])
                self._synced.append(SyncedFolder(self._objects, uri, machine.checkpoints))
            machine.start(request, self._types[0], len(self._machines), port)

    def _watch(self) -> bool:
        """Upload log and checkpoints until every instance has ended. An instance that fails stops the others.

        Returns False after a spot interruption.
        """
        stopped = hung = False
        while True:
            states = [machine.describe()["TrainingJobStatus"] for machine in self._machines]
            self._send_logs()
            if self._is_interrupted():
                return False
            if TERMINAL_STATUSES.issuperset(states):
                return True
            hung = self._hang(hung)
            if not stopped and (self._stop_requested.is_set() or "Failed" in states):
                stopped = True
                self._stop_machines()
            time.sleep(max(LOOK_SECONDS, SHARE_SECONDS * (threading.active_count() - 20)))

    def _is_interrupted(self) -> bool:
        """Upload new checkpoints. Return whether a spot interruption ended the processes meanwhile."""
        interrupted, warned = self._faults.interrupted_at, self._faults.warned_at
        if not all(synced.upload(interrupted[0] if interrupted else None) for synced in self._synced):
            del interrupted[0]
            self._signal(signal.SIGKILL)
            self._await_end()
            return True
        if warned and any(synced.has(warned[0]) for synced in self._synced):
            del warned[0]
            self._stop_machines()
            self._await_end()
            return all(synced.upload() for synced in self._synced)
        return False

    def _hang(self, hung: bool) -> bool:
        hangs = any(self.name.endswith(end) for end in self._faults.hanging)
        if hangs or hung:
            self._signal(signal.SIGSTOP if hangs else signal.SIGCONT)
        return hangs

    def _await_end(self) -> None:
        while not TERMINAL_STATUSES.issuperset(each.describe()["TrainingJobStatus"] for each in self._machines):
            time.sleep(LOOK_SECONDS)
        self._send_logs()

    def _stop_machines(self) -> None:
        for machine in self._machines:
            machine.stop()

    def _signal(self, number: signal.Signals) -> None:
        for machine in self._machines:
            machine.signal(number)

    def _send_logs(self) -> None:
        for machine, stream in zip(self._machines, self._streams, strict=True):
            for page in machine.new_lines():
                stream.put(page, twice=self._faults.lines_twice)

    def _upload(self) -> None:
        output, name = str(self.request["OutputDataConfig"]["S3OutputPath"]).rstrip("/"), self.name
        artifact = merged([machine.artifact for machine in self._machines], self._root / "model.tar.gz")
        if artifact:
            self._artifact = f"{output}/{name}/output/model.tar.gz"
            self._objects.put(self._artifact, artifact.read_bytes())
        data = self.base / "output" / "data"
        if data.exists() and any(data.iterdir()):
            self._objects.put(f"{output}/{name}/output/output.tar.gz", packed(data))


def after_start(local: Description, downloading: datetime) -> list[dict[str, Any]]:
    """Return the local service's transitions after its start. The download starts at `downloading`."""
    transitions = [dict(each) for each in local.get("SecondaryStatusTransitions", [])]
    transitions = [each for each in transitions if each["Status"] not in {"Starting", "Pending"}]
    if not transitions or transitions[0]["Status"] != "Downloading":
        return [transition("Downloading", downloading, None), *transitions]
    transitions[0]["StartTime"] = downloading
    return transitions


def transition(status: str, start: datetime, end: datetime | None) -> dict[str, Any]:
    ended = {"EndTime": end} if end else {}
    return {"Status": status, "StartTime": start, "StatusMessage": status, **ended}


def status(final: str) -> str:
    return final if final in {"Completed", "Failed"} else "Stopped"


@dataclass
class WarmPool:
    """Warm pool of one job."""

    is_requested: bool
    next_job: str | None = None
    """Job that took the instances."""
    ended: datetime | None = None

    def end(self, next_job: str | None = None) -> None:
        """End the pool, or give its instances to the next job."""
        self.next_job, self.ended = next_job, datetime.now(UTC)

    def description(self, job_ended: datetime | None) -> dict[str, Any]:
        """Return the pool's fields of the job's description."""
        if not self.is_requested:
            return {}
        if job_ended is None or self.ended is None:
            return {"WarmPoolStatus": {"Status": "InUse" if job_ended is None else "Available"}}
        seconds = {"ResourceRetainedBillableTimeInSeconds": 1 + round((self.ended - job_ended).total_seconds())}
        reused = {"Status": "Reused", "ReusedByJob": self.next_job} if self.next_job else {"Status": "Terminated"}
        return {"WarmPoolStatus": {**reused, **seconds}}


@dataclass
class JobFaults:
    """Faults of all jobs. A fault takes effect when its field is set."""

    no_capacity: set[str] = field(default_factory=set)
    """Instance types without capacity."""
    hanging: set[str] = field(default_factory=set)
    """Suffixes of the names of jobs whose processes are suspended: no output, no reaction to SIGTERM."""
    interrupted_at: list[str] = field(default_factory=list)
    """Patterns of file names, one for each spot interruption. When the file is uploaded to S3, only half of it
    is stored, and the processes are killed."""
    warned_at: list[str] = field(default_factory=list)
    """Patterns of file names, one for each spot interruption with a warning. After the file is uploaded, the processes
    get SIGTERM and enough time, and files that they save then are uploaded too."""
    grace_seconds: float = 120.0
    """Time between SIGTERM and SIGKILL."""
    billable_seconds: dict[str, int] = field(default_factory=dict)
    """Billed seconds of jobs by name, instead of the measured ones."""
    billing_seconds: float = 0.0
    """Time from the end of a job until its description has the billed seconds."""
    lines_twice: bool = False
    """True if every log line is stored twice, like by an agent that retries after a lost response."""

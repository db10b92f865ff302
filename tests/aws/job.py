"""One training job as SageMaker runs it: by the local service, on what lies in S3, its log and artifacts brought to
where SageMaker puts them."""

from __future__ import annotations

import io
import json
import tarfile
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from botocore.exceptions import ClientError

from tests.aws.api import Answer
from tests.aws.machine import Machine, free_port, job_description, merged
from training.errors import InputError
from training.services.protocol import TERMINAL_STATUSES, Description

GROUP = "/aws/sagemaker/TrainingJobs"
LOOK_SECONDS = 0.05
CAPACITY = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a different ML instance type."
)


def machine_types(request: Mapping[str, Any]) -> list[str]:
    resources = request["ResourceConfig"]
    preferred = [each["InstanceType"] for each in resources.get("InstancePreferences", [])]
    return preferred or [resources["InstanceType"]]


class TrainingJob:
    """One job, in a thread of its own."""

    def __init__(self, request: dict[str, Any], root: Path, clients: Mapping[str, Any], no_capacity: set[str]) -> None:
        self.request, self._root, self._clients = request, root, clients
        self._types = [each for each in machine_types(request) if each not in no_capacity]
        count = int(request["ResourceConfig"]["InstanceCount"])
        self._machines = [Machine(root, str(request["TrainingJobName"]), at) for at in range(count)]
        self._created = datetime.now(UTC)
        self._downloading: datetime | None = None
        self._uploaded: datetime | None = None
        self._failed: str | None = None
        self._stop_asked = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._artifact: str | None = None

    @property
    def name(self) -> str:
        return str(self.request["TrainingJobName"])

    @property
    def base(self) -> Path:
        """What `/opt/ml` is on the first machine."""
        return self._machines[0].base

    @property
    def ended(self) -> bool:
        return self._uploaded is not None

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(60)

    def stop(self) -> Answer:
        self._stop_asked.set()
        return {}

    def describe(self) -> Description:
        """Return the description, complete at every moment of the job's life."""
        described = {name: value for name, value in self.request.items() if name != "Tags"}
        described |= {"TrainingJobArn": f"arn:aws:sagemaker:us-east-1:111122223333:training-job/{self.name}"}
        described |= {"CreationTime": self._created, "ModelArtifacts": {"S3ModelArtifacts": self._artifact or ""}}
        if self._types:
            chosen = {"SelectedInstanceType": self._types[0]} if "InstancePreferences" in self._resources else {}
            described["ResourceConfig"] = {**self._resources, **chosen}
        return described | self._course()

    @property
    def _resources(self) -> dict[str, Any]:
        return dict(self.request["ResourceConfig"])

    def _course(self) -> dict[str, Any]:
        """Return the fields that change."""
        local = self._local()
        course = [_entered("Starting", self._created, self._downloading)]
        if self._downloading:
            course += _after_start(local, self._downloading)
        final = self._final(local)
        if self._uploaded is None:
            course = [each for each in course if each["Status"] not in {"Completed", "Failed", "Stopped"}] or course
            course[-1].pop("EndTime", None)
        elif final:
            course = [each for each in course if each["Status"] not in {final, "MaxRuntimeExceeded"}]
            course[-1]["EndTime"] = self._uploaded
            course.append(_entered(final, self._uploaded, self._uploaded))
        status = _status(final) if self._uploaded and final else "Stopping" if self._stop_asked.is_set() else None
        return {
            "TrainingJobStatus": status or "InProgress",
            "SecondaryStatus": course[-1]["Status"],
            "SecondaryStatusTransitions": course,
            "LastModifiedTime": course[-1]["StartTime"],
            **self._reason(local),
            **self._billed(),
            "FinalMetricDataList": local.get("FinalMetricDataList", []) if self._uploaded else [],
        }

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
        if not self._downloading:
            return {}
        if not self._uploaded:
            return {"TrainingStartTime": self._downloading}
        seconds = max(1, round((self._uploaded - self._downloading).total_seconds()))
        billed = {"TrainingTimeInSeconds": seconds, "BillableTimeInSeconds": seconds}
        return {"TrainingStartTime": self._downloading, "TrainingEndTime": self._uploaded, **billed}

    def _local(self) -> Description:
        return job_description([machine.describe() for machine in self._machines])

    def _run(self) -> None:
        try:
            if not self._types:
                self._failed = CAPACITY
                return
            self._downloading = datetime.now(UTC)
            self._start_machines(self._downloaded())
            self._watch()
            self._upload()
        except InputError as error:
            self._failed = f"ClientError: {error}"
        except ClientError as error:
            self._failed = f"ClientError: Data download failed: {error}"
        finally:
            self._uploaded = datetime.now(UTC)

    def _downloaded(self) -> dict[str, Any]:
        """Return the request with all that it names brought here."""
        hyperparameters = dict(self.request["HyperParameters"])
        source = self._fetch_file(json.loads(hyperparameters["sagemaker_submit_directory"]))
        hyperparameters["sagemaker_submit_directory"] = json.dumps(source.as_uri())
        # What the images do beyond starting the program is not to be had here.
        for key in [key for key in hyperparameters if key.startswith("sagemaker_training_compiler")]:
            del hyperparameters[key]
        channels = [self._channel(each) for each in self.request.get("InputDataConfig", [])]
        return {**self.request, "HyperParameters": hyperparameters, "InputDataConfig": channels}

    def _start_machines(self, request: Mapping[str, Any]) -> None:
        port = free_port()
        for machine in self._machines:
            # Each has its own copy of what earlier starts kept.
            if "CheckpointConfig" in request:
                self._fetch_folder(request["CheckpointConfig"]["S3Uri"], machine.checkpoints)
            machine.start(request, self._types[0], len(self._machines), port)

    def _channel(self, channel: Mapping[str, Any]) -> dict[str, Any]:
        source = channel["DataSource"]["S3DataSource"]
        folder = self._root / "channels" / channel["ChannelName"]
        if not self._fetch_folder(source["S3Uri"], folder):
            raise InputError(
                f"Data download failed:No S3 objects found under S3 URL {source['S3Uri']} given in input data source."
            )
        local = {**source, "S3Uri": folder.as_uri()}
        return {**channel, "DataSource": {"S3DataSource": local}}

    def _fetch_file(self, uri: str) -> Path:
        path = self._root / "source" / uri.rpartition("/")[2]
        path.parent.mkdir(parents=True, exist_ok=True)
        bucket, key = _place(uri)
        self._clients["s3"].download_file(bucket, key, str(path))
        return path

    def _fetch_folder(self, uri: str, folder: Path) -> int:
        """SageMaker takes every object whose key begins with the URI."""
        folder.mkdir(parents=True, exist_ok=True)
        bucket, prefix = _place(uri)
        pages = self._clients["s3"].get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        for key in keys:
            path = folder / key.removeprefix(prefix).lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            self._clients["s3"].download_file(bucket, key, str(path))
        return len(keys)

    def _watch(self) -> None:
        """Bring the log to CloudWatch until every machine has ended; one that fails ends the others."""
        stopped = False
        while True:
            states = [machine.describe()["TrainingJobStatus"] for machine in self._machines]
            for machine in self._machines:
                self._send_log(machine)
            if TERMINAL_STATUSES.issuperset(states):
                return
            if not stopped and (self._stop_asked.is_set() or "Failed" in states):
                stopped = True
                for machine in self._machines:
                    machine.stop()
            time.sleep(LOOK_SECONDS)

    def _send_log(self, machine: Machine) -> None:
        logs = self._clients["logs"]
        stream = {
            "logGroupName": GROUP,
            "logStreamName": f"{self.name}/{machine.host}-{int(self._created.timestamp())}",
        }
        for page, is_first in machine.new_lines():
            if is_first:
                _quietly(logs.create_log_group, logGroupName=GROUP)
                _quietly(logs.create_log_stream, **stream)
            told = zip(page.lines, page.times, strict=True)
            # An event of CloudWatch's holds one character at least.
            events = [{"timestamp": int(1000 * at), "message": line or " "} for line, at in told]
            logs.put_log_events(**stream, logEvents=events)

    def _upload(self) -> None:
        output, name = str(self.request["OutputDataConfig"]["S3OutputPath"]).rstrip("/"), self.name
        artifact = merged([machine.artifact for machine in self._machines], self._root / "model.tar.gz")
        if artifact:
            self._artifact = f"{output}/{name}/output/model.tar.gz"
            self._put(self._artifact, artifact.read_bytes())
        data = self.base / "output" / "data"
        if data.exists() and any(data.iterdir()):
            self._put(f"{output}/{name}/output/output.tar.gz", _packed(data))
        if "CheckpointConfig" in self.request:
            for machine in self._machines:
                self._upload_checkpoints(machine.checkpoints)

    def _upload_checkpoints(self, folder: Path) -> None:
        """All machines write under one prefix."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                uri = self.request["CheckpointConfig"]["S3Uri"]
                self._put(f"{uri}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def _put(self, uri: str, content: bytes) -> None:
        bucket, key = _place(uri)
        self._clients["s3"].put_object(Bucket=bucket, Key=key, Body=content)


def _after_start(local: Description, downloading: datetime) -> list[dict[str, Any]]:
    """Return the local service's transitions after its start, the download beginning when ours began."""
    course = [dict(each) for each in local.get("SecondaryStatusTransitions", [])]
    course = [each for each in course if each["Status"] not in {"Starting", "Pending"}]
    if not course or course[0]["Status"] != "Downloading":
        return [_entered("Downloading", downloading, None), *course]
    course[0]["StartTime"] = downloading
    return course


def _entered(status: str, start: datetime, end: datetime | None) -> dict[str, Any]:
    ended = {"EndTime": end} if end else {}
    return {"Status": status, "StartTime": start, "StatusMessage": status, **ended}


def _status(final: str) -> str:
    return final if final in {"Completed", "Failed"} else "Stopped"


def _packed(folder: Path) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        tar.add(folder, arcname=".")
    return content.getvalue()


def _place(uri: str) -> tuple[str, str]:
    parsed = urlparse(uri)
    return parsed.netloc, parsed.path.lstrip("/")


def _quietly(call: Any, **fields: Any) -> None:
    try:
        call(**fields)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceAlreadyExistsException":
            raise

"""`Endpoints` on SageMaker, through boto3: creates models, endpoint configurations and endpoints.

The account alone determines what exists: objects with the tag `trainfare:endpoint` are ours, all others stay unchanged.
The requests, the container image and the archive of the model are at the end.
"""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from botocore import exceptions
from packaging.version import Version

from models.endpoints.protocol import Action, DeploymentPlan, EndpointSpec, EndpointState, Request, refused
from models.inference.evaluation import read_task
from models.logged.flavor import ADAPTER_FILE
from state.digests import KEY_CHARACTERS, digest, listing_of
from state.home import home
from training.contract.errors import (
    EndpointFailed,
    EndpointNotFound,
    EndpointTaken,
    InputError,
    JobExists,
    JobNotFound,
    ServiceError,
    TrainfareError,
    Unreachable,
)
from training.contract.price import Price
from training.contract.price_table import table_price
from training.contract.retry import RetryPolicy
from training.contract.service import Echo
from training.job.tasks import TASKS, answer_spans
from training.services.sagemaker.aws_context import open_aws_context
from training.services.sagemaker.clients import READ_SECONDS, RUNTIME, Clients, account_of, translated
from training.services.sagemaker.job_rules import check_request
from training.services.sagemaker.machines import volume_key_of
from training.services.sagemaker.prices import listed_price
from training.services.sagemaker.service import log_address
from training.services.sagemaker.storage import Storage
from training.services.sagemaker.traits import TRAITS

OWNER_TAG = "trainfare:endpoint"
"""Tag that marks our resources; its value is the endpoint's name."""
PREFIX = "trainfare-"
VARIANT = "AllTraffic"
"""Name of the only variant that we create. The names of log streams begin with it."""
TAG_VALUE = re.compile(r"[\w .:/=+\-@]{0,256}", re.ASCII)
"""SageMaker's rule for a tag's value, as far as it is ASCII."""
CODE = Path(__file__).with_name("container") / "inference.py"
"""Code that answers questions in the container."""

KINDS = {"Endpoint": "endpoint", "EndpointConfig": "endpoint_config", "Model": "model"}
"""Kinds of objects, with their names in boto3's methods. In the order of deletion: each refers to the next."""
ENDPOINT, CONFIG, MODEL = KINDS
DEAD = frozenset({"Failed", "OutOfService"})
"""Statuses of endpoints that neither answer nor cost anything."""
GROUP = "/aws/sagemaker/Endpoints/"
LOG_PAGES, LOG_LINES, LINE_CHARACTERS = 10, 5, 300
NOT_FETCHED = "s3://not-fetched-yet/model.tar.gz"
"""Placeholder for the archive of a model that is not fetched yet: its key is a hash of the model's files."""
PAUSES = RetryPolicy(first_pause_seconds=3.0, factor=1.3, longest_pause_seconds=15.0)
NOT_YET_SEEN = RetryPolicy(first_pause_seconds=0.5, longest_pause_seconds=8.0, total_seconds=15.5)
"""Retries until a new object is visible everywhere, as CreateEndpoint's documentation recommends."""
DELETE_SECONDS = 3600.0
"""Longest wait until an endpoint is deleted. SageMaker deletes none that it is changing, and one whose container never
answers was observed to stay `Creating` for up to an hour."""
LINE_SECONDS = 30.0
"""Time between two progress lines."""


@dataclass(frozen=True, kw_only=True)
class _Resource:
    """An endpoint, a configuration or a model, as SageMaker describes it."""

    kind: str
    name: str
    description: Mapping[str, Any]
    tags: Mapping[str, str]

    @property
    def owner(self) -> str | None:
        """Name of our endpoint that it belongs to; None if it is not ours."""
        return self.tags.get(OWNER_TAG)

    @property
    def part(self) -> str | None:
        """Name of an endpoint's or a configuration's configuration; None for a model."""
        return self.description.get("EndpointConfigName")


class SageMakerEndpoints:
    """Endpoints of one account and region. It keeps no state: any process can query any endpoint."""

    def __init__(
        self, aws_fields: Mapping[str, Any], echo: Echo, pauses: RetryPolicy = PAUSES, *, is_read_only: bool = False
    ) -> None:
        """Open the account that an experiment's `aws` fields name. Read-only endpoints can only be planned.

        The additional field `image` is the URI of a container image, to use instead of AWS's image for the training's
        versions, and `ami` the version of the machines' system image. Raises AccessError immediately if there are no
        credentials or no network; InputError.
        """
        self._fields, self._echo, self._pauses, self._is_read_only = aws_fields, echo, pauses, is_read_only
        self.clients = Clients(aws_fields.get("region"), aws_fields.get("profile"))
        account_of(self.clients)
        self.region = self.clients.region
        self._sagemaker = self.clients.get("sagemaker")

    def deploy(self, spec: EndpointSpec, echo: Echo) -> EndpointState:
        plan, storage, files, key = self._prepared(spec)
        endpoint = self._find(ENDPOINT, spec.name)
        if plan.action == "create":
            if endpoint:
                echo(f"Endpoint {spec.name} is {endpoint.description['EndpointStatus']}: it is created again.")
                self._remove(self._of(spec.name), echo)
            echo(f"Image: {plan.image}" + (f" ({plan.note})" if plan.note else ""))
            upload(storage, files, key, home() / "uploads", echo)
        elif endpoint and endpoint.description["EndpointStatus"] != "Creating":
            return self._state(endpoint)
        try:
            for kind, (_, request) in zip((MODEL, CONFIG, ENDPOINT), plan.requests, strict=True):
                self._create(kind, request, spec.name)
            self._wait(spec, echo)
        except BaseException as error:
            self._undo(spec.name, plan.requests[0][1]["ModelName"], error, echo)
            raise
        return self.describe(spec.name)

    def plan(self, spec: EndpointSpec) -> DeploymentPlan:
        plan, *_ = self._prepared(spec)
        return plan if plan.action == "create" else replace(plan, requests=(), uploads={})

    def _action(self, spec: EndpointSpec, part: str) -> Action:
        """Return the effect on an existing endpoint. Raises EndpointTaken for one that serves something else."""
        endpoint = self._find(ENDPOINT, spec.name)
        if endpoint and endpoint.owner != spec.name:
            raise EndpointTaken(
                f"Endpoint {spec.name} exists in this region, but trainfare did not create it: choose a different "
                "--endpoint."
            )
        if endpoint is None or endpoint.description["EndpointStatus"] in {*DEAD, "Deleting"}:
            return "create"
        if endpoint.description["EndpointConfigName"] == part:
            return "keep"
        serves, identity = endpoint.tags.get("trainfare:identity", "a different model"), identity_tag(spec.identity)
        differs = f"{serves}, not {identity}"
        if serves == identity:
            differs = "the same model with a different machine, image, system image, archive, role or network"
        raise EndpointTaken(
            f"Endpoint {spec.name} serves {differs}: choose a different --endpoint, or undeploy it first."
        )

    def price(self, machine: str) -> Price | None:
        if table := self._fields.get("prices"):
            return table_price(table, machine, "aws.prices")
        cache = home() / "prices.json"
        return listed_price(self.clients, machine, cache, self._echo, "Hosting", is_read_only=self._is_read_only)

    def _prepared(self, spec: EndpointSpec) -> tuple[DeploymentPlan, Storage, Mapping[str, Path], str]:
        """Return the plan, also of an endpoint that is kept, and the files to upload with their key, if any.

        Raises InputError for a wrong spec.
        """
        if spec.precision not in {None, "auto"}:
            raise InputError(f"precision is '{spec.precision}': leave it out, because SageMaker's image decides it.")
        task = spec.task or read_task(spec.model)
        if task not in TASKS:
            raise InputError(f"task is '{task}': it must be one of {', '.join(TASKS)}.")
        aws_fields = {name: value for name, value in self._fields.items() if name not in {"image", "ami", "prices"}}
        context = open_aws_context(aws_fields, self.clients, is_read_only=self._is_read_only)
        storage, own_image, own = context.storage, self._fields.get("image"), spec.artifact_uri or ""
        image, note = (own_image, None) if own_image else inference_image(spec.versions, spec.machine, self.region)
        with_code = TASKS[task].has_own_endpoint_code
        files: Mapping[str, Path] = {}
        key, uri = "", NOT_FETCHED
        # The artifact of a script may need changes: see `unpack_model`.
        if spec.task and own.startswith("s3://") and not with_code and storage.exists(own):
            uri = own
        elif spec.model.is_dir() or not storage.is_read_only:
            files = archive_files(spec.model, with_code=with_code)
            key = archive_key(files)
            uri = storage.uri(key)
        # The relevant variables of SageMaker's SDK v2, and the pipeline that Hugging Face's inference toolkit creates
        # (aws/sagemaker-huggingface-inference-toolkit 2.6.0, `handler_service.py`).
        variables = {"SAGEMAKER_CONTAINER_LOG_LEVEL": "20", "SAGEMAKER_REGION": self.region}
        environment = {"HF_TASK": TASKS[task].pipeline, **variables}
        container = {"Image": image, "Environment": environment, "ModelDataUrl": uri}
        requests = deployment_requests(spec, container, context.role_arn, context.fields, self._fields.get("ami"))
        for operation, request in requests:
            check_request(self._sagemaker.meta.service_model, operation, request)
        is_missing = files and not storage.has(key)
        plan = DeploymentPlan(
            action=self._action(spec, requests[0][1]["ModelName"]),
            image=image,
            note=note,
            requests=requests,
            uploads={uri: sum(path.stat().st_size for path in files.values())} if is_missing else {},
            missing_bucket=storage.missing_bucket,
        )
        return plan, storage, files, key

    def _wait(self, spec: EndpointSpec, echo: Echo) -> None:
        name = spec.name
        for _ in self._checks(f"Endpoint {name}: Creating...", spec.wait_seconds, echo):
            if (endpoint := self._find(ENDPOINT, name)) is None:
                raise EndpointFailed(f"Endpoint {name} was deleted while it was being created.")
            description = endpoint.description
            status = description["EndpointStatus"]
            if status == "InService":
                return
            if status != "Creating":
                reason = str(description.get("FailureReason") or f"its status is {status}").strip().rstrip(".")
                lines = self._last_log_lines(name, description["CreationTime"])
                raise EndpointFailed(f"Endpoint {name} failed: {reason} ({self._log(name)}{lines}).")
        raise EndpointFailed(f"Endpoint {name} does not answer after {spec.wait_seconds:.0f} s ({self._log(name)}).")

    def _undo(self, name: str, part: str, error: BaseException, echo: Echo) -> None:
        """Delete what a failed deployment has created. An error meanwhile becomes a note of `error`."""
        echo(f"Endpoint {name}: deleting everything that was created for it.")
        try:
            found = [self._find(*each) for each in ((ENDPOINT, name), (CONFIG, part), (MODEL, part))]
            # A different command may have created an endpoint with this name in the meantime.
            mine = [each for each in found if each and each.owner == name and each.part in {None, part}]
            self._remove(mine, echo)
        except (TrainfareError, KeyboardInterrupt) as again:
            reason = str(again) or "interrupted again"
            error.add_note(f"Endpoint {name} was not deleted completely ({reason}): undeploy it, it may cost money.")

    def predict(self, name: str, body: bytes) -> bytes:
        content = {"ContentType": "application/json", "Accept": "application/json"}
        with _endpoint_errors(name):
            try:
                answer = self.clients.get(RUNTIME).invoke_endpoint(EndpointName=name, Body=body, **content)
                return bytes(answer["Body"].read())
            except exceptions.ClientError as error:
                code = error.response["Error"].get("Code")
                if code == "ModelError":
                    response: Mapping[str, Any] = error.response
                    text = str(response.get("OriginalMessage") or response["Error"].get("Message", ""))
                    raise refused(name, int(response.get("OriginalStatusCode", 500)), text, self._log(name)) from error
                if code in {"ValidationError", "ValidationException"}:
                    state = self.describe(name)  # the same error means a missing endpoint and one that is not ready
                    if state.status != "InService":
                        why = f"{state.status} and does not answer: {state.reason or 'retry when it is InService'}"
                        raise EndpointFailed(f"Endpoint {name} is {why} ({self._log(name)}).") from error
                raise
            except exceptions.ReadTimeoutError as error:
                raise Unreachable(
                    f"Endpoint {name} has not answered within {READ_SECONDS[RUNTIME]} s, and the request was not "
                    f"repeated: send fewer or shorter texts at a time, or deploy it on a faster instance type "
                    f"({self._log(name)})."
                ) from error

    def describe(self, name: str) -> EndpointState:
        endpoint = self._find(ENDPOINT, name)
        return self._state(endpoint if endpoint and endpoint.owner == name else self._of(name)[0])

    def undeploy(self, name: str, echo: Echo) -> None:
        self._remove(self._of(name), echo)
        echo(f"{name}: deleted")

    def endpoints(self) -> list[EndpointState]:
        return sorted(map(self._state, self._owned(ENDPOINT)), key=lambda each: each.created, reverse=True)

    def _state(self, resource: _Resource) -> EndpointState:
        tags, description = resource.tags, resource.description
        # A killed command may have left a model or a configuration without an endpoint.
        status = str(description.get("EndpointStatus", "Deleted"))
        return EndpointState(
            name=str(resource.owner),
            service=TRAITS.name,
            status=status,
            identity=tags.get("trainfare:identity", ""),
            address=description[f"{resource.kind}Arn"],
            machine=tags.get("trainfare:machine", "unknown"),
            machines=int(tags.get("trainfare:machines", 1)),
            created=description["CreationTime"],
            ended=description.get("LastModifiedTime", description["CreationTime"]) if status in DEAD else None,
            reason=description.get("FailureReason"),
        )

    def _log(self, name: str) -> str:
        return f"log: {log_address(self.region, GROUP + name)}"

    def _last_log_lines(self, name: str, since: datetime) -> str:
        """Return the last lines of the containers' log since a time, for a message; empty if it cannot be read."""
        query = {"logGroupName": f"{GROUP}{name}", "logStreamNamePrefix": f"{VARIANT}/"}
        lines: deque[str] = deque(maxlen=LOG_LINES)
        with suppress(ServiceError), translated(f"The log of endpoint {name}"):
            pages = self.clients.get("logs").get_paginator("filter_log_events")
            for page in islice(pages.paginate(**query, startTime=int(1000 * since.timestamp())), LOG_PAGES):
                lines += [line for each in page["events"] if (line := each["message"].strip()[:LINE_CHARACTERS])]
        return f"; its last lines: {' | '.join(lines)}" if lines else ""

    def _create(self, kind: str, request: Mapping[str, Any], endpoint: str) -> None:
        """Create an object, unless it exists because an earlier call's answer was lost or its command was killed.

        Raises EndpointTaken if an object with this name exists for a different purpose.
        """
        policy, name = replace(NOT_YET_SEEN, sleep=self._pauses.sleep), request[f"{kind}Name"]
        try:
            policy.call(
                lambda: self._call("create", kind, endpoint, **request),
                is_transient=lambda error: isinstance(error, EndpointNotFound),
            )
        except EndpointTaken as error:
            found = self._find(kind, name)
            if not found or found.owner != endpoint or found.part != request.get("EndpointConfigName"):
                raise EndpointTaken(
                    f"Endpoint {endpoint} cannot be created: {kind} {name} exists in this region, but this command did "
                    f"not create it. Choose a different --endpoint."
                ) from error

    def _find(self, kind: str, name: str) -> _Resource | None:
        """Return the object with its tags; None if it does not exist."""
        with suppress(EndpointNotFound):
            description = self._call("describe", kind, name, **{f"{kind}Name": name})
            with _endpoint_errors(name):
                pages = self._sagemaker.get_paginator("list_tags").paginate(ResourceArn=description[f"{kind}Arn"])
                tags = {each["Key"]: each["Value"] for page in pages for each in page["Tags"]}
            return _Resource(kind=kind, name=name, description=description, tags=tags)
        return None

    def _owned(self, kind: str, **filters: str) -> list[_Resource]:
        """Return the objects with our tag. `filters` are parameters of the list, such as NameContains."""
        with translated(f"The list of {KINDS[kind]}s"):
            pages = self._sagemaker.get_paginator(f"list_{KINDS[kind]}s").paginate(MaxResults=100, **filters)
            names = [each[f"{kind}Name"] for page in pages for each in page[f"{kind}s"]]
        return [each for name in names if (each := self._find(kind, name)) and each.owner]

    def _of(self, name: str) -> list[_Resource]:
        """Return the endpoint of this name, its configurations and its models. Raises EndpointNotFound."""
        endpoint = self._find(ENDPOINT, name)
        parts = [each for kind in (CONFIG, MODEL) for each in self._owned(kind, NameContains=part_prefix(name))]
        resources = [each for each in (endpoint, *parts) if each and each.owner == name]
        if not resources and endpoint:
            raise EndpointNotFound(f"Endpoint {name} on SageMaker was not created by trainfare, so it was not changed.")
        if not resources:
            place = f"SageMaker in this account and region {self.region}"
            raise EndpointNotFound(f"Endpoint {name} does not exist on {place}: --aws.region names another region.")
        return resources

    def _remove(self, resources: Iterable[_Resource], echo: Echo) -> None:
        """Delete the objects of one endpoint: the endpoint, which costs money, then configurations and models."""
        for each in resources:
            if each.kind == ENDPOINT:
                self._remove_endpoint(each.name, echo)
            else:
                with suppress(EndpointNotFound):
                    self._call("delete", each.kind, str(each.owner), **{f"{each.kind}Name": each.name})

    def _remove_endpoint(self, name: str, echo: Echo) -> None:
        what = f"Endpoint {name} is deleted as soon as SageMaker has stopped changing it..."
        for _ in self._checks(what, DELETE_SECONDS, echo):
            endpoint = self._find(ENDPOINT, name)
            if endpoint is None or endpoint.owner != name:
                return
            if endpoint.description["EndpointStatus"] != "Deleting":
                try:
                    self._call("delete", ENDPOINT, name, EndpointName=name)
                except (EndpointNotFound, InputError) as error:
                    if isinstance(error, InputError) and not re.search(r"in[- ]progress", str(error)):
                        raise
        raise EndpointFailed(f"Endpoint {name} is not deleted after {DELETE_SECONDS:.0f} s: undeploy it again later.")

    def _checks(self, what: str, limit_seconds: float, echo: Echo) -> Iterator[None]:
        """Yield at each check, until the limit. From time to time, print `what` and the seconds."""
        reported_at_seconds = 0.0
        for elapsed_seconds in replace(self._pauses, total_seconds=limit_seconds).attempts():
            if elapsed_seconds - reported_at_seconds >= LINE_SECONDS:
                reported_at_seconds = elapsed_seconds
                echo(f"{what} {elapsed_seconds:.0f} s")
            yield

    def _call(self, verb: str, kind: str, endpoint: str, **parameters: Any) -> Any:
        with _endpoint_errors(endpoint):
            return getattr(self._sagemaker, f"{verb}_{KINDS[kind]}")(**parameters)


@contextmanager
def _endpoint_errors(name: str) -> Iterator[None]:
    """Translate SageMaker's refusals about an endpoint into our errors."""
    try:
        with translated(f"Endpoint {name}"):
            yield
    except JobNotFound as error:
        raise EndpointNotFound(str(error)) from error
    except JobExists as error:
        raise EndpointTaken(str(error)) from error


def deployment_requests(
    spec: EndpointSpec, container: Mapping[str, Any], role_arn: str, fields: Mapping[str, Any], ami: str | None
) -> tuple[Request, ...]:
    """Return the requests for a model, a configuration and an endpoint, in the order in which they are created.

    `container` has the image, the environment and the S3 URI of a model.tar.gz. `fields` are the fields `aws` of an
    experiment. `ami` is the version of the machines' system image; None: SageMaker chooses it. The model and the
    configuration are named after a digest of the requests, so that equal requests find what they made, also in earlier
    versions.
    """
    identity = identity_tag(spec.identity)
    network = {"Subnets": fields.get("subnets"), "SecurityGroupIds": fields.get("security_groups")}
    network = {name: list(values) for name, values in network.items() if values}
    is_isolated = bool(fields.get("isolate_network", False))
    volume_key = volume_key_of([spec.machine], fields.get("volume_key"))
    content = [container["Image"], container["ModelDataUrl"], container["Environment"], spec.machine, spec.machines]
    settings = [role_arn, identity, network, is_isolated, volume_key, *([ami] if ami else [])]
    key = digest(json.dumps([*content, *settings], sort_keys=True), 10)
    part = part_prefix(spec.name) + key
    tags = {
        **fields.get("tags", {}),
        **({"trainfare:run": spec.run_id} if spec.run_id else {}),
        **({"trainfare:model": spec.model_id} if spec.model_id else {}),
        OWNER_TAG: spec.name,
        "trainfare:deployment": key,
        "trainfare:identity": identity,
        "trainfare:machine": spec.machine,
        "trainfare:machines": str(spec.machines),
    }
    tagged = {"Tags": [{"Key": name, "Value": value} for name, value in tags.items()]}
    model = {
        "ModelName": part,
        "ExecutionRoleArn": role_arn,
        "PrimaryContainer": container,
        **tagged,
        **({"VpcConfig": network} if network else {}),
        **({"EnableNetworkIsolation": True} if is_isolated else {}),
    }
    variant = {
        "VariantName": VARIANT,
        "ModelName": part,
        "InitialVariantWeight": 1,
        "InitialInstanceCount": spec.machines,
        "InstanceType": spec.machine,
        **({"InferenceAmiVersion": ami} if ami else {}),
    }
    configuration = {
        "EndpointConfigName": part,
        "ProductionVariants": [variant],
        **tagged,
        **({"KmsKeyId": volume_key} if volume_key else {}),
    }
    endpoint = {"EndpointName": spec.name, "EndpointConfigName": part, **tagged}
    return ("CreateModel", model), ("CreateEndpointConfig", configuration), ("CreateEndpoint", endpoint)


def part_prefix(name: str) -> str:
    """Return the prefix of the names of an endpoint's models and configurations. Long endpoint names may share it."""
    return f"{PREFIX}{name[:40].rstrip('-')}-"


def identity_tag(identity: str) -> str:
    """Return a model's identity as a tag's value: a run id, or the digest of a path."""
    if TAG_VALUE.fullmatch(identity):
        return identity
    return f"folder:{digest(identity, KEY_CHARACTERS)}"


def inference_image(versions: str, machine: str, region: str) -> tuple[str, str | None]:
    """Return AWS's inference image for a model, and a remark if its Transformers version is not the training's.

    `versions` is a run's tag `platform.versions`. Raises InputError if AWS lists no image.
    """
    # Imported late: the import takes seconds.
    from sagemaker.core import image_uris

    match = re.search(r"\btransformers (\d+\.\d+(?:\.\d+)?)", versions)
    trained = Version(match[1]) if match else None
    try:
        listed = image_uris.config_for_framework("huggingface")["inference"]["versions"]
        version = chosen(trained, map(Version, listed))
        bases = [Version(key.removeprefix("pytorch")) for key in listed[str(version)] if key.startswith("pytorch")]
        uri = image_uris.retrieve(
            "huggingface",
            region,
            version=str(version),
            base_framework_version=f"pytorch{max(bases)}",
            instance_type=machine,
            image_scope="inference",
        )
    except (ValueError, KeyError) as error:
        reason = (str(error).splitlines() or ["not listed"])[0].rstrip(".")
        raise InputError(
            f"AWS lists no inference image for {machine} in {region} ({reason}): set --machine.image."
        ) from error
    if trained == version:
        return str(uri), None
    return str(
        uri
    ), f"trained with Transformers {trained or 'of an unknown version'}; AWS's nearest image has {version}"


def chosen(trained: Version | None, listed: Iterable[Version]) -> Version:
    """Return the listed version that fits best for a model saved by version `trained`.

    Only versions with the same major number are compatible. Among them, it is the same version, or the next newer one,
    or the newest older one. If `trained` is None or its major number is not listed, it is the newest of all.
    """
    every = sorted(listed)
    same = [each for each in every if trained and each.major == trained.major]
    newer = [each for each in same if trained and each >= trained]
    return newer[0] if newer else (same or every)[-1]


def archive_files(model: Path, *, with_code: bool) -> dict[str, Path]:
    """Return the archive's files: name in the archive to path. Raises InputError if the folder is not a model."""
    if not (model / "config.json").is_file():
        raise InputError(f"{model} is not a Transformers folder: it has no config.json.")
    if (model / ADAPTER_FILE).is_file():
        raise InputError(
            f"{model} is an adapter without its base model, which AWS's inference images cannot load: serve it with "
            "service local, or train with adapter.save merged."
        )
    paths = {path.relative_to(model): path for path in sorted(model.rglob("*")) if path.is_file()}
    files = {name.as_posix(): path for name, path in paths.items() if not any(part[0] == "." for part in name.parts)}
    return files | ({f"code/{path.name}": path for path in (CODE, Path(answer_spans.__file__))} if with_code else {})


def archive_key(files: Mapping[str, Path]) -> str:
    """Return the archive's key in S3, a digest of its files' names and contents. Equal files have the same key."""
    return f"models/{digest(listing_of(dict(sorted(files.items()))), KEY_CHARACTERS)}/model.tar.gz"


def upload(storage: Storage, files: Mapping[str, Path], key: str, folder: Path, echo: Echo) -> None:
    """Pack the files in `folder` and upload the archive, unless it exists in S3.

    The archive has no name in the folder, so a command that is killed leaves nothing.
    """
    if not files or storage.has(key):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        storage.put_file(pack(files, Path(f"/proc/self/fd/{file.fileno()}")), key, echo)


def pack(files: Mapping[str, Path], archive: Path) -> Path:
    """Write the archive, with the files at its root, and return its path."""
    # Higher levels of compression hardly make weights smaller.
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for name, path in sorted(files.items()):
            tar.add(path.resolve(), arcname=name, recursive=False)
    return archive

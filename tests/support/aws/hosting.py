"""The account's models, endpoint configurations and endpoints: create, describe, list and delete them.

Error messages are those that users of SageMaker quote: for an existing name, for a missing object, and for an endpoint
that is being changed or deleted."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlparse

from botocore.exceptions import ClientError

from tests.support.aws.api import ApiError, Dropped, Faults, Response
from tests.support.aws.training import AWS_REGISTRY, NO_IMAGE, NOT_ASSUMED
from tests.support.endpoints.served import Serving

PAGE, TAG_PAGE = 2, 5
"""Page sizes of lists, which ignore the size in the request."""
NOUNS = {"Endpoint": "endpoint", "EndpointConfig": "endpoint configuration", "Model": "model"}
IN_ARN = {"Endpoint": "endpoint", "EndpointConfig": "endpoint-config", "Model": "model"}

AMIS = (
    *(
        "al2-ami-sagemaker-inference-gpu-2",
        "al2-ami-sagemaker-inference-gpu-2-1",
        "al2-ami-sagemaker-inference-gpu-3-1",
    ),
    *("al2-ami-sagemaker-inference-neuron-2", "al2023-ami-sagemaker-inference-gpu-4-1"),
)
"""Values of InferenceAmiVersion (botocore 1.44.5)."""

Serve = Callable[["Hosting", Mapping[str, Any], bytes], tuple[int, bytes]]
"""A function of (hosting, request that created the model, body) that returns HTTP status and body."""


def echo(_: Hosting, __: Mapping[str, Any], body: bytes) -> tuple[int, bytes]:
    return 200, body


@dataclass
class Hosted:
    """A model, an endpoint configuration or an endpoint."""

    request: dict[str, Any]
    arn: str
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    status: str = "InService"
    looks: int = 0
    """Number of descriptions until the status changes."""
    reason: str | None = None
    """Reason of a failure."""


class Hosting:
    """All hosted objects. Calls come from many threads, so a lock guards them."""

    def __init__(self, account: str, clients: Mapping[str, Any]) -> None:
        self._account, self._clients = account, clients
        self._lock = threading.RLock()
        self.clear()

    def clear(self) -> None:
        """Forget all objects and settings."""
        self.kinds: dict[str, dict[str, Hosted]] = {kind: {} for kind in NOUNS}
        self.tags: dict[str, dict[str, str]] = {}
        self.quotas: dict[str, int] = {}
        self.looks = 1
        """Number of descriptions during which an operation on an endpoint is in progress."""
        self.failure: str | None = None
        """Reason why endpoints fail that are created from now on."""
        self.serve: Serve = echo

    def operations(self) -> dict[str, Any]:
        calls: dict[str, Any] = {"ListTags": self._list_tags}
        for kind in NOUNS:
            for verb in ("create", "describe", "delete", "list"):
                calls[f"{verb.title()}{kind}{'s' * (verb == 'list')}"] = self._call(verb, kind)
        return calls

    def names(self) -> dict[str, list[str]]:
        """Return the sorted names of each kind of object that exists."""
        return {kind: sorted(objects) for kind, objects in self.kinds.items() if objects}

    def tags_of(self, kind: str, name: str) -> dict[str, str]:
        return self.tags[self.kinds[kind][name].arn]

    def request(self, kind: str, name: str) -> dict[str, Any]:
        return self.kinds[kind][name].request

    def invoke(self, name: str, body: bytes) -> tuple[int, bytes]:
        """Return the response of an endpoint's container. Raises ApiError."""
        with self._lock:
            endpoint = self.kinds["Endpoint"].get(name)
            if endpoint is None or endpoint.status != "InService":
                raise ApiError("ValidationError", f"Endpoint {name} of account {self._account} not found.")
            config = self.kinds["EndpointConfig"][endpoint.request["EndpointConfigName"]].request
            model = self.kinds["Model"][config["ProductionVariants"][0]["ModelName"]].request
        return self.serve(self, model, body)

    def model_archive(self, model: Mapping[str, Any]) -> bytes:
        """Return the model.tar.gz that a container unpacks."""
        location = urlparse(model["PrimaryContainer"]["ModelDataUrl"])
        response = self._clients["s3"].get_object(Bucket=location.netloc, Key=location.path.lstrip("/"))
        return bytes(response["Body"].read())

    def _call(self, verb: str, kind: str) -> Callable[[Mapping[str, Any]], Response]:
        method = {"create": self._create, "describe": self._describe, "delete": self._delete, "list": self._list}[verb]
        return self._locked(lambda parameters: method(kind, parameters))

    def _locked(self, call: Callable[[Mapping[str, Any]], Response]) -> Callable[[Mapping[str, Any]], Response]:
        def locked(parameters: Mapping[str, Any]) -> Response:
            with self._lock:
                return call(parameters)

        return locked

    def _create(self, kind: str, parameters: Mapping[str, Any]) -> Response:
        name = parameters[f"{kind}Name"]
        if name in self.kinds[kind]:
            raise ApiError(
                "ValidationException", f'Cannot create already existing {NOUNS[kind]} "{self._arn(kind, name)}".'
            )
        {"Endpoint": self._check_endpoint, "EndpointConfig": self._check_config, "Model": self._check_model}[kind](
            parameters
        )
        request = {key: value for key, value in parameters.items() if key != "Tags"}
        arn = self._arn(kind, name)
        hosted = Hosted(request=request, arn=arn)
        if kind == "Endpoint":
            hosted.status, hosted.looks, hosted.reason = "Creating", self.looks, self.failure
        self.kinds[kind][name] = hosted
        self.tags[arn] = {each["Key"]: each["Value"] for each in parameters.get("Tags", [])}
        return {f"{kind}Arn": arn}

    def _describe(self, kind: str, parameters: Mapping[str, Any]) -> Response:
        name = parameters[f"{kind}Name"]
        hosted = self._get(kind, name)
        description = {**hosted.request, f"{kind}Arn": hosted.arn, "CreationTime": hosted.created}
        if kind != "Endpoint":
            return description
        self._advance(name, hosted)
        description |= {"EndpointStatus": hosted.status, "LastModifiedTime": hosted.created}
        description["EndpointConfigName"] = hosted.request["EndpointConfigName"]
        reason = hosted.reason if hosted.status in {"Failed", "InService"} else None
        return description | ({"FailureReason": reason} if reason else {})

    def _advance(self, name: str, endpoint: Hosted) -> None:
        """Advance the operation on an endpoint by one step."""
        if endpoint.status not in {"Creating", "Deleting"}:
            return
        endpoint.looks -= 1
        if endpoint.looks >= 0:
            return
        if endpoint.status == "Deleting":
            del self.kinds["Endpoint"][name]
            self.tags.pop(endpoint.arn)
            self._get("Endpoint", name)
        endpoint.status = "InService" if endpoint.reason is None else "Failed"

    def _delete(self, kind: str, parameters: Mapping[str, Any]) -> Response:
        name = parameters[f"{kind}Name"]
        hosted = self._get(kind, name)
        if kind == "Endpoint":
            self._advance(name, hosted)
            self._check_idle(hosted)
            hosted.status, hosted.looks = "Deleting", self.looks
            return {}
        in_use = [each.request["EndpointConfigName"] for each in self.kinds["Endpoint"].values()]
        if kind == "EndpointConfig" and name in in_use:
            raise ApiError("ValidationException", f"AWS's documentation forbids deleting {name}, which is in use.")
        del self.kinds[kind][name]
        self.tags.pop(hosted.arn)
        return {}

    def _list(self, kind: str, parameters: Mapping[str, Any]) -> Response:
        part = parameters.get("NameContains", "")
        matches = [(name, each) for name, each in sorted(self.kinds[kind].items()) if part in name]
        summaries = [
            {
                f"{kind}Name": name,
                f"{kind}Arn": each.arn,
                "CreationTime": each.created,
                **({"EndpointStatus": each.status, "LastModifiedTime": each.created} if kind == "Endpoint" else {}),
            }
            for name, each in matches
        ]
        return _page(f"{kind}s", summaries, parameters)

    def _list_tags(self, parameters: Mapping[str, Any]) -> Response:
        if parameters["ResourceArn"] not in self.tags:
            raise ApiError("ValidationException", "Requested resource not found.")
        tags = [{"Key": key, "Value": value} for key, value in self.tags[parameters["ResourceArn"]].items()]
        return _page("Tags", tags, parameters, TAG_PAGE)

    def _get(self, kind: str, name: str) -> Hosted:
        if name not in self.kinds[kind]:
            raise ApiError("ValidationException", f'Could not find {NOUNS[kind]} "{self._arn(kind, name)}".')
        return self.kinds[kind][name]

    def _check_idle(self, endpoint: Hosted) -> None:
        if endpoint.status not in {"InService", "Failed"}:
            raise ApiError("ValidationException", f'Cannot update in-progress endpoint "{endpoint.arn}".')

    def _check_model(self, parameters: Mapping[str, Any]) -> None:
        container = parameters["PrimaryContainer"]
        registry, repository = re.fullmatch(r"(\d{12})\.dkr\.ecr\.[^/]+/(.+):.+", container["Image"]).groups()  # type: ignore[union-attr]
        if registry != AWS_REGISTRY:
            fields = {"repository": repository, "registry": registry, "role": parameters["ExecutionRoleArn"]}
            raise ApiError("ValidationException", NO_IMAGE.format(**fields))
        try:
            self._clients["iam"].get_role(RoleName=parameters["ExecutionRoleArn"].rpartition("/")[2])
        except ClientError as error:
            raise ApiError("ValidationException", NOT_ASSUMED.format(role=parameters["ExecutionRoleArn"])) from error
        location = urlparse(container["ModelDataUrl"])
        try:
            self._clients["s3"].head_object(Bucket=location.netloc, Key=location.path.lstrip("/"))
        except ClientError as error:
            raise ApiError(
                "ValidationException", f"Could not find model data at {container['ModelDataUrl']}."
            ) from error

    def _check_config(self, parameters: Mapping[str, Any]) -> None:
        for variant in parameters["ProductionVariants"]:
            self._get("Model", variant["ModelName"])

            if variant.get("InferenceAmiVersion", AMIS[0]) not in AMIS:
                raise ApiError(
                    "ValidationException",
                    f"1 validation error detected: Value '{variant['InferenceAmiVersion']}' at 'productionVariants.1."
                    f"member.inferenceAmiVersion' failed to satisfy constraint: Member must satisfy enum value set",
                )

    def _check_endpoint(self, parameters: Mapping[str, Any]) -> None:
        self._get("EndpointConfig", parameters["EndpointConfigName"])
        [variant] = self.kinds["EndpointConfig"][parameters["EndpointConfigName"]].request["ProductionVariants"]
        kind, count = variant["InstanceType"], variant["InitialInstanceCount"]
        if (limit := self.quotas.get(kind)) is not None and count > limit:
            raise ApiError(
                "ResourceLimitExceeded",
                f"The account-level service limit '{kind} for endpoint usage' is {limit} Instances, with current "
                f"utilization of 0 Instances and a request delta of {count} Instances.",
            )

    def _arn(self, kind: str, name: str) -> str:
        # SageMaker writes these ARNs in lower case.
        return f"arn:aws:sagemaker:us-east-1:{self._account}:{IN_ARN[kind]}/{name.lower()}"


def _page(key: str, items: list[dict[str, Any]], parameters: Mapping[str, Any], size: int = PAGE) -> Response:
    first = int(parameters.get("NextToken", 0))
    last = first + min(size, int(parameters.get("MaxResults", size)))
    return {key: items[first:last], **({"NextToken": str(last)} if last < len(items) else {})}


PATH = re.compile(r"/endpoints/([^/]+)/invocations")


class Runtime(Serving):
    """HTTP server that passes requests to the hosted endpoints."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self.faults = Faults()
        self.is_called = False
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        super().__init__(server)

    def answer(self, name: str, body: bytes) -> bytes:
        """Return the endpoint's response. Raises ApiError; an error of the container includes its response."""
        self.is_called = True
        self.faults.meet("InvokeEndpoint")
        status, content = self._hosting.invoke(name, body)
        if status >= 400:
            message = f"Received client error ({status}) from primary with message {content.decode()!r}."
            raise ApiError("ModelError", json.dumps([message, status, content.decode()]), 424)
        return content

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        runtime = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # Otherwise a body waits 40 ms for the acknowledgement of its headers.

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                match = PATH.fullmatch(self.path)
                assert match
                try:
                    self._send(200, runtime.answer(match[1], body), "")
                except ApiError as error:
                    self._send(error.status, json.dumps(_error_body(error)).encode(), error.code)
                except (Dropped, BrokenPipeError):  # the client may have stopped waiting
                    self.close_connection = True

            def _send(self, status: int, content: bytes, code: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                if code:
                    self.send_header("x-amzn-ErrorType", code)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def _error_body(error: ApiError) -> dict[str, Any]:
    if error.code != "ModelError":
        return {"Message": error.message}
    message, status, original = json.loads(error.message)
    return {"Message": message, "OriginalStatusCode": status, "OriginalMessage": original}

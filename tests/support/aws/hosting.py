"""The account's models, endpoint configurations and endpoints: made, changed, listed, deleted, asked.

What SageMaker refuses is refused in its words, as its users quote them: a name twice, a part that is not there, and
any deletion or change of an endpoint that it is at work on.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlparse

from botocore.exceptions import ClientError

from tests.support.aws.api import Answer, Refused
from tests.support.aws.training import AWS_REGISTRY, NO_IMAGE, NOT_ASSUMED

PAGE, TAG_PAGE = 2, 5
"""At most so many of a list at once, however many are asked for."""
ARN = re.compile(r"arn:aws:sagemaker:us-east-1:\d{12}:(endpoint|endpoint-config|model)/(.+)")
NOUNS = {"Endpoint": "endpoint", "EndpointConfig": "endpoint configuration", "Model": "model"}
IN_ARN = {"Endpoint": "endpoint", "EndpointConfig": "endpoint-config", "Model": "model"}

Serve = Callable[["Hosting", Mapping[str, Any], bytes], tuple[int, bytes]]
"""Answers a request to a model, by the request that created it: HTTP status and body."""


def echo(_: Hosting, __: Mapping[str, Any], body: bytes) -> tuple[int, bytes]:
    return 200, body


@dataclass
class Hosted:
    """One of the three."""

    request: dict[str, Any]
    arn: str
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    status: str = "InService"
    looks: int = 0
    """Descriptions until the status changes."""
    pending: str | None = None
    """The configuration that an endpoint is led to."""
    reason: str | None = None


class Hosting:
    """What is hosted; one lock, for the calls come from many threads."""

    def __init__(self, account: str, clients: Mapping[str, Any], instance_types: frozenset[str]) -> None:
        self._account, self._clients, self._instance_types = account, clients, instance_types
        self._lock = threading.RLock()
        self.kinds: dict[str, dict[str, Hosted]] = {kind: {} for kind in NOUNS}
        self.tags: dict[str, dict[str, str]] = {}
        self.quotas: dict[str, int] = {}
        self.looks = 1
        """So many descriptions and attempts to change it find an endpoint at work before it has ended."""
        self.failure: str | None = None
        """Why endpoints fail that are made or changed from now on."""
        self.serve: Serve = echo

    def operations(self) -> dict[str, Any]:
        calls: dict[str, Any] = {
            "AddTags": self._add_tags,
            "DeleteTags": self._delete_tags,
            "ListTags": self._list_tags,
        }
        for kind in NOUNS:
            for verb in ("create", "describe", "delete", "list"):
                calls[f"{verb.title()}{kind}{'s' * (verb == 'list')}"] = self._call(verb, kind)
        return {**calls, "UpdateEndpoint": self._locked(self._update)}

    def names(self) -> dict[str, list[str]]:
        """What there is, by kind; kinds of which there is nothing are left out."""
        return {kind: sorted(found) for kind, found in self.kinds.items() if found}

    def tags_of(self, kind: str, name: str) -> dict[str, str]:
        return self.tags[self.kinds[kind][name].arn]

    def request(self, kind: str, name: str) -> dict[str, Any]:
        return self.kinds[kind][name].request

    def invoke(self, name: str, body: bytes) -> tuple[int, bytes]:
        """Return what the container of an endpoint answers. Raises Refused."""
        with self._lock:
            endpoint = self.kinds["Endpoint"].get(name)
            if endpoint is None or endpoint.status not in {"InService", "Updating"}:
                raise Refused("ValidationError", f"Endpoint {name} of account {self._account} not found.")
            config = self.kinds["EndpointConfig"][endpoint.request["EndpointConfigName"]].request
            model = self.kinds["Model"][config["ProductionVariants"][0]["ModelName"]].request
        return self.serve(self, model, body)

    def model_archive(self, model: Mapping[str, Any]) -> bytes:
        """Return the model.tar.gz that a container unpacks."""
        place = urlparse(model["PrimaryContainer"]["ModelDataUrl"])
        answer = self._clients["s3"].get_object(Bucket=place.netloc, Key=place.path.lstrip("/"))
        return bytes(answer["Body"].read())

    def _call(self, verb: str, kind: str) -> Callable[[Mapping[str, Any]], Answer]:
        method = {"create": self._create, "describe": self._describe, "delete": self._delete, "list": self._list}[verb]
        return self._locked(lambda asked: method(kind, asked))

    def _locked(self, call: Callable[[Mapping[str, Any]], Answer]) -> Callable[[Mapping[str, Any]], Answer]:
        def locked(asked: Mapping[str, Any]) -> Answer:
            with self._lock:
                return call(asked)

        return locked

    def _create(self, kind: str, asked: Mapping[str, Any]) -> Answer:
        name = asked[f"{kind}Name"]
        if name in self.kinds[kind]:
            raise Refused(
                "ValidationException", f'Cannot create already existing {NOUNS[kind]} "{self._arn(kind, name)}".'
            )
        {"Endpoint": self._check_endpoint, "EndpointConfig": self._check_config, "Model": self._check_model}[kind](
            asked
        )
        request = {key: value for key, value in asked.items() if key != "Tags"}
        arn = self._arn(kind, name)
        made = Hosted(request=request, arn=arn)
        if kind == "Endpoint":
            made.status, made.looks, made.reason = "Creating", self.looks, self.failure
        self.kinds[kind][name] = made
        self.tags[arn] = {each["Key"]: each["Value"] for each in asked.get("Tags", [])}
        return {f"{kind}Arn": arn}

    def _describe(self, kind: str, asked: Mapping[str, Any]) -> Answer:
        name = asked[f"{kind}Name"]
        found = self._found(kind, name)
        told = {**found.request, f"{kind}Arn": found.arn, "CreationTime": found.created}
        if kind != "Endpoint":
            return told
        self._go_on(name, found)
        told |= {"EndpointStatus": found.status, "LastModifiedTime": found.created}
        told["EndpointConfigName"] = found.request["EndpointConfigName"]
        if found.status == "Updating":
            told["PendingDeploymentSummary"] = {"EndpointConfigName": found.pending}
        shown = found.reason if found.status in {"Failed", "InService"} else None
        return told | ({"FailureReason": shown} if shown else {})

    def _go_on(self, name: str, endpoint: Hosted) -> None:
        """Bring an endpoint on by one look."""
        if endpoint.status not in {"Creating", "Updating", "Deleting"}:
            return
        endpoint.looks -= 1
        if endpoint.looks >= 0:
            return
        if endpoint.status == "Deleting":
            del self.kinds["Endpoint"][name]
            self.tags.pop(endpoint.arn)
            self._found("Endpoint", name)
        if endpoint.status == "Updating" and endpoint.reason is None:
            endpoint.request["EndpointConfigName"] = endpoint.pending
        failed = endpoint.status == "Creating" and endpoint.reason is not None
        endpoint.status, endpoint.pending = "Failed" if failed else "InService", None

    def _delete(self, kind: str, asked: Mapping[str, Any]) -> Answer:
        name = asked[f"{kind}Name"]
        found = self._found(kind, name)
        if kind == "Endpoint":
            self._go_on(name, found)
            self._check_idle(found)
            found.status, found.looks = "Deleting", self.looks
            return {}
        users = [
            each
            for each in self.kinds["Endpoint"].values()
            if name in (each.request["EndpointConfigName"], each.pending)
        ]
        if kind == "EndpointConfig" and users:
            raise Refused("ValidationException", f"AWS's documentation forbids to delete {name}, which is in use.")
        del self.kinds[kind][name]
        self.tags.pop(found.arn)
        return {}

    def _update(self, asked: Mapping[str, Any]) -> Answer:
        endpoint = self._found("Endpoint", asked["EndpointName"])
        self._go_on(asked["EndpointName"], endpoint)
        self._check_idle(endpoint)
        self._found("EndpointConfig", asked["EndpointConfigName"])
        endpoint.status, endpoint.pending, endpoint.looks = "Updating", asked["EndpointConfigName"], self.looks
        endpoint.reason = self.failure
        return {"EndpointArn": endpoint.arn}

    def _list(self, kind: str, asked: Mapping[str, Any]) -> Answer:
        part = asked.get("NameContains", "")
        found = [(name, each) for name, each in sorted(self.kinds[kind].items()) if part in name]
        told = [
            {
                f"{kind}Name": name,
                f"{kind}Arn": each.arn,
                "CreationTime": each.created,
                **({"EndpointStatus": each.status, "LastModifiedTime": each.created} if kind == "Endpoint" else {}),
            }
            for name, each in found
        ]
        return _page(f"{kind}s", told, asked)

    def _add_tags(self, asked: Mapping[str, Any]) -> Answer:
        tags = self._tagged(asked)
        tags |= {each["Key"]: each["Value"] for each in asked["Tags"]}
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

    def _delete_tags(self, asked: Mapping[str, Any]) -> Answer:
        for key in asked["TagKeys"]:
            self._tagged(asked).pop(key, None)
        return {}

    def _list_tags(self, asked: Mapping[str, Any]) -> Answer:
        tags = [{"Key": key, "Value": value} for key, value in self._tagged(asked).items()]
        return _page("Tags", tags, asked, TAG_PAGE)

    def _tagged(self, asked: Mapping[str, Any]) -> dict[str, str]:
        if asked["ResourceArn"] not in self.tags:
            raise Refused("ValidationException", "Requested resource not found.")
        return self.tags[asked["ResourceArn"]]

    def _found(self, kind: str, name: str) -> Hosted:
        if name not in self.kinds[kind]:
            raise Refused("ValidationException", f'Could not find {NOUNS[kind]} "{self._arn(kind, name)}".')
        return self.kinds[kind][name]

    def _check_idle(self, endpoint: Hosted) -> None:
        if endpoint.status not in {"InService", "Failed"}:
            raise Refused("ValidationException", f'Cannot update in-progress endpoint "{endpoint.arn}".')

    def _check_model(self, asked: Mapping[str, Any]) -> None:
        container = asked["PrimaryContainer"]
        registry, repository = re.fullmatch(r"(\d{12})\.dkr\.ecr\.[^/]+/(.+):.+", container["Image"]).groups()  # type: ignore[union-attr]
        if registry != AWS_REGISTRY:
            told = {"repository": repository, "registry": registry, "role": asked["ExecutionRoleArn"]}
            raise Refused("ValidationException", NO_IMAGE.format(**told))
        try:
            self._clients["iam"].get_role(RoleName=asked["ExecutionRoleArn"].rpartition("/")[2])
        except ClientError as error:
            raise Refused("ValidationException", NOT_ASSUMED.format(role=asked["ExecutionRoleArn"])) from error
        place = urlparse(container["ModelDataUrl"])
        try:
            self._clients["s3"].head_object(Bucket=place.netloc, Key=place.path.lstrip("/"))
        except ClientError as error:
            raise Refused(
                "ValidationException", f"Could not find model data at {container['ModelDataUrl']}."
            ) from error

    def _check_config(self, asked: Mapping[str, Any]) -> None:
        for variant in asked["ProductionVariants"]:
            self._found("Model", variant["ModelName"])
            if variant["InstanceType"] not in self._instance_types:
                raise Refused(
                    "ValidationException",
                    f"1 validation error detected: Value '{variant['InstanceType']}' at 'productionVariants.1.member."
                    f"instanceType' failed to satisfy constraint: Member must satisfy enum value set",
                )

    def _check_endpoint(self, asked: Mapping[str, Any]) -> None:
        self._found("EndpointConfig", asked["EndpointConfigName"])
        [variant] = self.kinds["EndpointConfig"][asked["EndpointConfigName"]].request["ProductionVariants"]
        kind, count = variant["InstanceType"], variant["InitialInstanceCount"]
        if (limit := self.quotas.get(kind)) is not None and count > limit:
            raise Refused(
                "ResourceLimitExceeded",
                f"The account-level service limit '{kind} for endpoint usage' is {limit} Instances, with current "
                f"utilization of 0 Instances and a request delta of {count} Instances.",
            )

    def _arn(self, kind: str, name: str) -> str:
        # SageMaker writes these ARNs in small letters, whatever the names are.
        return f"arn:aws:sagemaker:us-east-1:{self._account}:{IN_ARN[kind]}/{name.lower()}"


def _page(key: str, told: list[dict[str, Any]], asked: Mapping[str, Any], most: int = PAGE) -> Answer:
    first = int(asked.get("NextToken", 0))
    last = first + min(most, int(asked.get("MaxResults", most)))
    return {key: told[first:last], **({"NextToken": str(last)} if last < len(told) else {})}

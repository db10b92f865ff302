"""Send one request to an endpoint, and translate its errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore import exceptions

from models.endpoints.sagemaker.resources import ENDPOINT, Resources, endpoint_errors
from training.contract.errors import EndpointFailed, EndpointNotFound, InputError, Unreachable
from training.services.sagemaker.clients import READ_SECONDS, RUNTIME, Clients

JSON = "application/json"


def invoke(clients: Clients, resources: Resources, name: str, body: bytes, log: str) -> bytes:
    """Return the answer to a JSON request. `log` is the location of the endpoint's log, for messages.

    Raises EndpointNotFound, EndpointFailed, Unreachable; InputError if the container rejects the request.
    """
    runtime = clients.get(RUNTIME)
    with endpoint_errors(name):
        try:
            answer = runtime.invoke_endpoint(EndpointName=name, ContentType=JSON, Accept=JSON, Body=body)
            return bytes(answer["Body"].read())
        except exceptions.ClientError as error:
            if endpoint_error := _endpoint_error(resources, name, error.response, log):
                raise endpoint_error from error
            raise
        except exceptions.ReadTimeoutError as error:
            raise Unreachable(
                f"Endpoint {name} has not answered within {READ_SECONDS[RUNTIME]} s, and the request was not repeated: "
                f"send fewer or shorter texts at a time, or deploy it on a faster instance type (log: {log})."
            ) from error


def _endpoint_error(resources: Resources, name: str, response: Mapping[str, Any], log: str) -> Exception | None:
    """Return our error for an error of the runtime service; None for errors that are common to all AWS services."""
    code = str(response["Error"].get("Code"))
    if code == "ModelError":
        return _container_error(name, response, log)
    if code in {"ModelNotReadyException", "ServiceUnavailable", "InternalDependencyException"}:
        return Unreachable(f"Endpoint {name} is not ready: run the same command again soon (log: {log}).")
    if code in {"ValidationError", "ValidationException"}:
        return _availability_error(resources, name, response, log)
    return None


def _container_error(name: str, response: Mapping[str, Any], log: str) -> Exception:
    status = int(response.get("OriginalStatusCode", 500))
    message = _one_line(str(response.get("OriginalMessage") or response["Error"].get("Message", "")))
    if 400 <= status < 500:
        return InputError(f"Endpoint {name} rejected the request with status {status}: {message} (log: {log}).")
    return EndpointFailed(f"Endpoint {name} failed with status {status}: {message} (log: {log}).")


def _availability_error(resources: Resources, name: str, response: Mapping[str, Any], log: str) -> Exception:
    """Return the error for an endpoint that is missing or not ready. The runtime service does not distinguish them."""
    endpoint = resources.find(ENDPOINT, name)
    if endpoint is None:
        region = resources.region
        return EndpointNotFound(f"Endpoint {name} does not exist on SageMaker in this account and region {region}.")
    status = endpoint.description["EndpointStatus"]
    if status not in {"InService", "Updating", "SystemUpdating", "RollingBack"}:
        reason = str(endpoint.description.get("FailureReason", "")).strip().rstrip(".")
        return EndpointFailed(
            f"Endpoint {name} is {status} and does not answer{reason and f': {reason}'} (log: {log})."
        )
    return InputError(
        f"Endpoint {name}: SageMaker rejected the request: {_one_line(response['Error'].get('Message', ''))}."
    )


def _one_line(text: str) -> str:
    """Return the message in a container's response, on one line. A response in JSON has a field for it."""
    try:
        read = json.loads(text)
    except ValueError:
        read = None
    if isinstance(read, dict):
        text = str(read.get("message") or read.get("error") or text)
    return " ".join(text.split())[:500].rstrip(".") or "no reason given"

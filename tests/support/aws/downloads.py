"""Download the source and the channels of a simulated job, as SageMaker's agent and the toolkit in the container do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.aws.isolation import isolated_interpreter
from tests.support.aws.objects import Objects
from training.contract.errors import InputError
from training.services.local.container import PYTHON_VARIABLE

IN_CONTAINER = "/opt/ml/input/data/"


class NetworkError(Exception):
    """A call that a container without a network cannot make."""


def downloaded(request: Mapping[str, Any], objects: Objects, root: Path, environment: Mapping[str, str]) -> Any:
    """Download into `root`, and return the request with local paths and additional variables.

    The agent downloads the channels outside the container. The toolkit downloads the source inside, which a container
    without a network cannot do; a source in a channel is read from there (sagemaker-training 5.1.4, `files.py`,
    `download_and_extract`).
    """
    hyperparameters = dict(request["HyperParameters"])
    channels = [_channel(each, objects, root) for each in request.get("InputDataConfig", [])]
    archive, isolated = json.loads(hyperparameters["sagemaker_submit_directory"]), request.get("EnableNetworkIsolation")
    if archive.startswith(IN_CONTAINER):
        source = root / "channels" / archive.removeprefix(IN_CONTAINER)
    elif isolated:
        raise NetworkError(
            f"botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint of {archive}"
        )
    else:
        source = objects.fetch_file(archive, root / "source")
    hyperparameters["sagemaker_submit_directory"] = json.dumps(source.as_uri())
    # Only the Training Compiler's images support these flags.
    for key in [key for key in hyperparameters if key.startswith("sagemaker_training_compiler")]:
        del hyperparameters[key]
    variables = {**environment, **request.get("Environment", {})}
    if isolated:
        variables[PYTHON_VARIABLE] = str(isolated_interpreter(root / "isolated"))
    return {**request, "HyperParameters": hyperparameters, "InputDataConfig": channels, "Environment": variables}


def _channel(channel: Mapping[str, Any], objects: Objects, root: Path) -> dict[str, Any]:
    """Download a channel with a prefix of S3. The account simulates no other kind of channel."""
    source, folder = channel["DataSource"]["S3DataSource"], root / "channels" / channel["ChannelName"]
    assert (source["S3DataType"], source["S3DataDistributionType"]) == ("S3Prefix", "FullyReplicated")
    if not objects.fetch_folder(source["S3Uri"], folder):
        raise InputError(
            f"Data download failed:No S3 objects found under S3 URL {source['S3Uri']} given in input data source."
        )
    return {**channel, "DataSource": {"S3DataSource": {**source, "S3Uri": folder.as_uri()}}}

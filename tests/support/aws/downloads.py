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
    instances = int(request["ResourceConfig"]["InstanceCount"])
    channels = [_channel(each, objects, root, instances) for each in request.get("InputDataConfig", [])]
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


def _channel(channel: Mapping[str, Any], objects: Objects, root: Path, instances: int) -> dict[str, Any]:
    """Download a channel. FastFile shows the same files as File; it only reads them later.

    With `ShardedByS3Key`, each instance gets "approximately 1/n of the number of S3 objects" (botocore 1.44.5), here
    every n-th, in a folder with the number of the instance.
    """
    source = channel["DataSource"].get("S3DataSource")
    if source is None or channel.get("InputMode") == "Pipe":
        raise InputError(f"InternalServerError: the simulated account has no {'pipes' if source else 'file systems'}")
    folder = root / "channels" / channel["ChannelName"]
    files = objects.files_of(source["S3DataType"], source["S3Uri"])
    if not files:
        raise InputError(
            f"Data download failed:No S3 objects found under S3 URL {source['S3Uri']} given in input data source."
        )
    if source.get("S3DataDistributionType") == "ShardedByS3Key":
        for at in range(instances):
            objects.fetch(dict(sorted(files.items())[at::instances]), folder / str(at))
    else:
        objects.fetch(files, folder)
    return {**channel, "DataSource": {"S3DataSource": {**source, "S3Uri": folder.as_uri()}}}


def share_of(channel: Mapping[str, Any], at: int) -> dict[str, Any]:
    """Return a downloaded channel as instance `at` sees it."""
    source = channel["DataSource"]["S3DataSource"]
    if source.get("S3DataDistributionType") != "ShardedByS3Key":
        return dict(channel)
    return {**channel, "DataSource": {"S3DataSource": {**source, "S3Uri": f"{source['S3Uri']}/{at}"}}}

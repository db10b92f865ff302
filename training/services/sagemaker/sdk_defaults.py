"""What the configuration file of SageMaker's SDK says, under the names of our fields.

Administrator's and user's `config.yaml`, as https://sagemaker.readthedocs.io/en/stable/overview.html describes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from training.contract.errors import InputError

PLACES = {
    "role": ("TrainingJob", "RoleArn"),
    "subnets": ("TrainingJob", "VpcConfig", "Subnets"),
    "security_groups": ("TrainingJob", "VpcConfig", "SecurityGroupIds"),
    "volume_key": ("TrainingJob", "ResourceConfig", "VolumeKmsKeyId"),
    "output_key": ("TrainingJob", "OutputDataConfig", "KmsKeyId"),
    "isolate_network": ("TrainingJob", "EnableNetworkIsolation"),
    "encrypt_traffic": ("TrainingJob", "EnableInterContainerTrafficEncryption"),
    "bucket": ("PythonSDK", "Modules", "Session", "DefaultS3Bucket"),
    "bucket_prefix": ("PythonSDK", "Modules", "Session", "DefaultS3ObjectKeyPrefix"),
}


def sdk_defaults() -> dict[str, Any]:
    """Return the fields that the SDK's configuration sets. Raises InputError for a file that it refuses."""
    # Imported late: it takes seconds.
    from sagemaker.core.config.config import load_sagemaker_config

    try:
        return read_defaults(load_sagemaker_config())
    # Its own errors, those of jsonschema and of YAML: each names the file.
    except Exception as error:
        said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(f"The configuration file of SageMaker's SDK cannot be read: {said}.") from error


def read_defaults(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a configuration sets. Pure."""
    root = configuration.get("SageMaker", {})
    found = {name: _at(root, path) for name, path in PLACES.items()}
    tags = _at(root, ("TrainingJob", "Tags"))
    found["tags"] = {each["Key"]: each["Value"] for each in tags} if tags else None
    return {name: value for name, value in found.items() if value is not None}


def _at(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(tree, Mapping) or key not in tree:
            return None
        tree = tree[key]
    return tree

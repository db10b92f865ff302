"""Read the settings in the SageMaker SDK's configuration files, under the names of our fields.

The files are the administrator's and the user's `config.yaml`; see
https://sagemaker.readthedocs.io/en/stable/overview.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from training.contract.errors import InputError

CONFIG_PATHS = {
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
    """Return the fields that the SDK's configuration sets. Raises InputError for an invalid file."""
    # Imported here because the import takes seconds.
    from sagemaker.core.config.config import load_sagemaker_config

    try:
        return read_defaults(load_sagemaker_config())
    # The SDK raises its own errors and those of jsonschema and YAML. Each message names the file.
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(f"The configuration file of SageMaker's SDK cannot be read: {reason}.") from error


def read_defaults(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a configuration sets. Pure."""
    root = configuration.get("SageMaker", {})
    values = {name: _value(root, path) for name, path in CONFIG_PATHS.items()}
    tags = _value(root, ("TrainingJob", "Tags"))
    values["tags"] = {each["Key"]: each["Value"] for each in tags} if tags else None
    return {name: value for name, value in values.items() if value is not None}


def _value(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(tree, Mapping) or key not in tree:
            return None
        tree = tree[key]
    return tree

"""The parts of a deployment: requests with names and tags, the container image, and the archive of the model."""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from models.endpoints.protocol import Echo, EndpointSpec, Request
from state.digests import KEY_CHARACTERS, digest, listing_of
from training.contract.errors import InputError
from training.job.tasks import TASKS, answer_spans
from training.services.sagemaker.instance_types import volume_key_of
from training.services.sagemaker.storage import Storage

OWNER_TAG = "trainfare:endpoint"
"""Tag that marks our resources; its value is the endpoint's name."""
PREFIX = "trainfare-"
"""Prefix of the names of our models and endpoint configurations."""
VARIANT = "AllTraffic"
"""Name of the only variant that we create. The names of log streams begin with it."""
TAG_VALUE = re.compile(r"[\w .:/=+\-@]{0,256}", re.ASCII)
"""SageMaker's rule for a tag's value, as far as it is ASCII."""
CODE = Path(__file__).with_name("container") / "inference.py"
"""Code that answers questions in the container."""

Version = tuple[int, int, int]


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


def environment(task: str, region: str) -> dict[str, str]:
    """Return the container's environment variables: the relevant ones of SageMaker's SDK v2, and the task.

    HF_TASK names the pipeline that Hugging Face's inference toolkit creates
    (aws/sagemaker-huggingface-inference-toolkit 2.6.0, `handler_service.py`).
    """
    return {"HF_TASK": TASKS[task].pipeline, "SAGEMAKER_CONTAINER_LOG_LEVEL": "20", "SAGEMAKER_REGION": region}


def inference_image(versions: str, machine: str, region: str) -> tuple[str, str | None]:
    """Return AWS's inference image for a model, and a remark if its Transformers version is not the training's.

    `versions` is a run's tag `platform.versions`. Raises InputError if AWS lists no image.
    """
    # Imported late: the import takes seconds.
    from sagemaker.core import image_uris

    match = re.search(r"\btransformers (\d+\.\d+(?:\.\d+)?)", versions)
    trained = _version(match[1]) if match else None
    try:
        listed = image_uris.config_for_framework("huggingface")["inference"]["versions"]
        by_version = {_version(text): text for text in listed}
        version = chosen(trained, by_version)
        uri = image_uris.retrieve(
            "huggingface",
            region,
            version=by_version[version],
            base_framework_version=max((key for key in listed[by_version[version]] if "pytorch" in key), key=_version),
            instance_type=machine,
            image_scope="inference",
        )
    except (ValueError, KeyError) as error:
        reason = (str(error).splitlines() or ["not listed"])[0].rstrip(".")
        raise InputError(f"AWS lists no inference image for {machine} in {region} ({reason}): set --image.") from error
    if trained == version:
        return str(uri), None
    before = ".".join(map(str, trained)) if trained else "of an unknown version"
    return str(uri), f"trained with Transformers {before}; AWS's nearest image has {by_version[version]}"


def chosen(trained: Version | None, listed: Iterable[Version]) -> Version:
    """Return the listed version that fits best for a model saved by version `trained`.

    Only versions with the same major number are compatible. Among them, it is the same version, or the next newer one,
    or the newest older one. If `trained` is None or its major number is not listed, it is the newest of all.
    """
    every = sorted(listed)
    same = [each for each in every if trained and each[0] == trained[0]]
    newer = [each for each in same if trained and each >= trained]
    return newer[0] if newer else (same or every)[-1]


def _version(text: str) -> Version:
    numbers = [int(number) for number in re.findall(r"\d+", text)] + [0, 0, 0]
    return numbers[0], numbers[1], numbers[2]


def archive_files(model: Path, *, with_code: bool) -> dict[str, Path]:
    """Return the archive's files: name in the archive to path. Raises InputError if the folder is not a model."""
    if not (model / "config.json").is_file():
        raise InputError(f"{model} is not a Transformers folder: it has no config.json.")
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

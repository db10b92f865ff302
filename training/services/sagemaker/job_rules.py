"""Rules for a job and its request, applied before an upload, so that SageMaker does not refuse the job.

Sources: sagemaker-python-sdk 2.257.7, `training_compiler/config.py`, `huggingface/training_compiler/config.py` and
`fw_utils.py`; botocore's documentation of CreateTrainingJob, and the limits in its model. As in the SDK, rules about
versions apply only to images whose URI states the versions, not to a user's own images. State of the account, such as
quotas, roles and images, is known only to AWS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import boto3
import regex
from pydantic import JsonValue

from training.contract.errors import InputError, nearest, short_text
from training.contract.job_spec import FILE_SYSTEMS, JobSpec, is_shell_safe
from training.contract.request import CODE_CHANNEL, SET_BY_FIELDS, TRAINING_COMPILER, check_tags, launcher_of
from training.services.sagemaker.machines import (
    Image,
    accelerators,
    all_types,
    described,
    device_count,
    family,
    is_gpu,
    is_known,
    is_trainium,
    read_image,
    source,
)

COMPILER_FAMILIES = ("p3", "p3dn", "g4dn", "p4d", "g5")
SMDDP_TYPES = ("ml.p3.16xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge", "ml.p4de.24xlarge")
WITHOUT_8_BITS = frozenset({"T4", "T4g", "V100", "A10G", "A100"})
"""GPUs below compute capability 8.9, whose tensor cores do not multiply in 8-bit floating point."""
MODEL = "model"
"""Channel of a model that was staged, and the argument with its name, which is then only a label."""

Rule = Callable[[JobSpec, Image | None], str | None]
"""Function that returns the error of a job with this image, or None."""


def check_sdk_rules(spec: JobSpec) -> None:
    """Raise InputError for a job that SageMaker would reject or that could not run."""
    image = read_image(spec.image)
    if message := next(filter(None, (rule(spec, image) for rule in RULES)), None):
        raise InputError(f"{message}.")


def check_instance_types(spec: JobSpec) -> None:
    """Raise InputError for a name that is not an instance type, and for a type that is listed twice."""
    for each in all_types(spec):
        if not re.fullmatch(r"ml\.[a-z0-9-]+\.[a-z0-9-]+", each):
            raise InputError(f"instance_type '{each}' is not a SageMaker instance type; an example is ml.g5.xlarge.")
    if len(set(all_types(spec))) < len(all_types(spec)):
        raise InputError(f"fallback_instance_types repeats a type: {', '.join(all_types(spec))}; list each type once.")


def _compiler_family(spec: JobSpec, _: Image | None) -> str | None:
    if spec.compiler not in TRAINING_COMPILER:
        return None
    for each in all_types(spec):
        if family(each) not in COMPILER_FAMILIES:
            return (
                f"compiler '{spec.compiler}' does not run on {each}: SageMaker Training Compiler supports only the "
                f"families {', '.join(COMPILER_FAMILIES)}"
            )
    return None


def _compiler_image(spec: JobSpec, image: Image | None) -> str | None:
    """Check that the image fits the compiler. Like the SDK, reject a user's own image for the Training Compiler."""
    needs_compiler = spec.compiler in TRAINING_COMPILER
    if needs_compiler and not (image and image.has_training_compiler):
        return f"compiler '{spec.compiler}' needs an image of SageMaker Training Compiler; {spec.image} is not one"
    if not needs_compiler and image and image.has_training_compiler:
        return (
            f"compiler '{spec.compiler}' does not run in the Training Compiler's image {spec.image}: "
            "use 'trcomp-off' to train without the compiler in that image"
        )
    if needs_compiler and image and image.transformers and not (1, 9) <= image.pytorch_version[:2] <= (1, 11):
        return (
            f"compiler '{spec.compiler}' needs PyTorch 1.9 to 1.11 in images with Transformers; "
            f"this image has {image.pytorch}"
        )
    return None


def _compiler_launcher(spec: JobSpec, image: Image | None) -> str | None:
    launcher = launcher_of(spec)
    if launcher == "xla" and spec.compiler not in TRAINING_COMPILER:
        return f"launcher 'xla' needs the compiler trcomp or trcomp-off, not '{spec.compiler}'"
    if spec.compiler not in TRAINING_COMPILER or launcher is None:
        return None
    if launcher in {"smddp", "smp"}:
        return f"launcher '{launcher}' and compiler '{spec.compiler}' cannot be combined"
    is_old = image is not None and image.pytorch_version < (1, 11)
    if launcher == "xla" and is_old:
        return f"launcher 'xla' needs PyTorch 1.11 or later; the image has {image.pytorch if image else ''}"
    if launcher != "xla" and not is_old:
        return f"compiler '{spec.compiler}' needs launcher 'xla' with PyTorch 1.11 or later, not '{launcher}'"
    return None


def _torchrun(spec: JobSpec, image: Image | None) -> str | None:
    if launcher_of(spec) != "torchrun":
        return None
    for each in all_types(spec):
        if not (is_gpu(each) or is_trainium(each)):
            return f"launcher 'torchrun' runs only on GPUs and Trainium; {each} has neither"
    # The SDK lists the versions from 1.13.1 to the newest of its release; later versions are allowed here.
    if image and is_gpu(spec.instance_type) and image.pytorch_version < (1, 13, 1):
        return f"launcher 'torchrun' needs PyTorch 1.13.1 or later on GPUs; the image has {image.pytorch}"
    if not spec.program.endswith(".py"):
        return f"launcher 'torchrun' starts only Python programs; '{spec.program}' is not one"
    return None


def _versions(spec: JobSpec, image: Image | None) -> str | None:
    if image is None:
        return None
    if spec.compiler == "inductor" and image.pytorch_version < (2,):
        return f"compiler 'inductor' needs PyTorch 2.0 or later; the image has {image.pytorch}"
    is_ddp = launcher_of(spec) == "pytorchddp" and spec.compiler not in TRAINING_COMPILER
    if is_ddp and image.pytorch_version < (1, 10):
        return f"launcher 'pytorchddp' needs PyTorch 1.10 or later; the image has {image.pytorch}"
    return None


def _trainium(spec: JobSpec, _: Image | None) -> str | None:
    launcher = launcher_of(spec)
    for each in filter(is_trainium, all_types(spec)):
        if not spec.is_script:
            return f"Our own training does not run on Trainium ({each}): use a type with a GPU, or your own script"
        if launcher not in {None, "torchrun"}:
            return f"launcher '{launcher}' does not run on Trainium ({each}): use 'torchrun'"
    return None


def _data_parallel(spec: JobSpec, image: Image | None) -> str | None:
    if launcher_of(spec) != "smddp":
        return None
    for each in all_types(spec):
        if each not in SMDDP_TYPES:
            return f"launcher 'smddp' runs only on {', '.join(SMDDP_TYPES)}, not on {each}"
    if image and not (1, 6) <= image.pytorch_version <= (2, 2, 0):
        return f"launcher 'smddp' needs PyTorch 1.6 to 2.2.0; the image has {image.pytorch}"
    return None


def _launcher_options(spec: JobSpec, _: Image | None) -> str | None:
    launcher = launcher_of(spec)
    if spec.mpi_options and launcher not in {"smddp", "smp"}:
        return f"mpi_options needs the launcher smddp or smp, not {launcher or 'a single process'}"
    if spec.model_parallel and launcher != "smp":
        return f"model_parallel needs the launcher smp, not {launcher or 'a single process'}"
    if launcher == "smp" and "partitions" not in spec.model_parallel:
        return "launcher 'smp' needs model_parallel.partitions, the number of parts of the model"
    # The library itself checks its other parameters.
    partitions = spec.model_parallel.get("partitions", 1)
    if type(partitions) is not int or partitions < 1:
        return f"model_parallel.partitions is {partitions!r}; it must be a whole number of at least 1"
    return None


def _spot(spec: JobSpec, _: Image | None) -> str | None:
    if not spec.spot:
        if spec.max_wait_seconds is not None:
            return f"max_wait_seconds {spec.max_wait_seconds} applies only to spot training, but spot is false"
        return None
    if not (spec.checkpoint_uri or "").startswith("s3://"):
        return "spot needs a checkpoint URI in S3: without one, an interrupted job starts again and is billed twice"
    if spec.max_wait_seconds is not None and spec.max_wait_seconds < spec.max_run_seconds:
        return (
            f"max_wait_seconds {spec.max_wait_seconds} must be at least max_run_seconds {spec.max_run_seconds}, "
            f"because the wait includes the run"
        )
    if spec.fallback_instance_types:
        return "spot and fallback_instance_types cannot be combined: fallbacks work only with on-demand instances"
    if spec.keep_alive_seconds:
        return (
            f"spot and keep_alive_seconds {spec.keep_alive_seconds} cannot be combined: "
            "spot instances cannot be kept alive"
        )
    return None


def _network(spec: JobSpec, _: Image | None) -> str | None:
    if bool(spec.subnets) != bool(spec.security_groups):
        missing = "security_groups" if spec.subnets else "subnets"
        return f"subnets and security_groups must be set together; {missing} is missing"
    for name, uri in spec.channels.items():
        if uri.partition("://")[0] in FILE_SYSTEMS and not spec.subnets:
            return f"channel '{name}' is in a file system, which needs aws.subnets and aws.security_groups to reach it"
    return None


def _instance_groups(spec: JobSpec, _: Image | None) -> str | None:
    groups = spec.resources.get("InstanceGroups") or []
    member, names = "aws.request.ResourceConfig.InstanceGroups", [each.get("InstanceGroupName") for each in groups]
    for channel, options in spec.channel_options.items():
        if unknown := set(options.instance_groups).difference(names):
            return f"channel '{channel}' is for the instance group '{min(unknown)}', which {member} does not have"
    if not groups:
        return None
    if not spec.is_script:
        return f"{member} is for scripts: our own training runs on equal instances"
    if not any(
        (each["InstanceType"], each["InstanceCount"]) == (spec.instance_type, spec.instance_count) for each in groups
    ):
        return (
            f"machine has {spec.instance_count} x {spec.instance_type}, which is no group of {member}: set "
            "machine.instance_type and machine.instance_count to those of the group that trains"
        )
    return None


RULES: tuple[Rule, ...] = (
    *(_compiler_family, _compiler_image, _compiler_launcher, _versions, _torchrun),
    *(_trainium, _data_parallel, _launcher_options, _spot, _network, _instance_groups),
)


def check_devices(spec: JobSpec) -> None:
    """Raise InputError if `devices` is not the number of devices, or would not be on a fallback type.

    SageMaker's launchers start a process on each device. With any other number, the batch size and the learning rate
    would differ from the experiment's.
    """
    count = device_count(spec.instance_type)
    launcher = launcher_of(spec)
    if count is not None and launcher is not None and spec.devices != count:
        raise InputError(
            f"machine.devices is {spec.devices}, but {spec.instance_type} has {_counted(spec.instance_type)}, and "
            f"launcher '{launcher}' starts one process on each."
        )
    for fallback in spec.fallback_instance_types:
        if count is None or device_count(fallback) != count:
            raise InputError(
                f"machine.fallback_instance_types has {fallback} ({described(fallback)}), but machine.instance_type is "
                f"{spec.instance_type} ({described(spec.instance_type)}): a fallback must have as many devices, "
                f"because batch size and learning rate are planned for them."
            )


def check_settings(spec: JobSpec) -> None:
    """Raise InputError if our own job has a setting that the GPUs of one of its instance types do not support."""
    if spec.is_script:
        return
    for each in all_types(spec):
        devices = accelerators(each)
        has_gpu = not is_known(each) or (devices is not None and devices.kind == "gpu")
        has_8_bits = has_gpu and (devices is None or devices.name not in WITHOUT_8_BITS)
        if spec.hyperparameters.get("precision") == "fp8" and not has_8_bits:
            raise InputError(
                f"precision 'fp8' needs GPUs of compute capability 8.9 or higher, such as L4, L40S and H100, but "
                f"{each} has {described(each)}: use precision 'bf16'"
            )
        if spec.hyperparameters.get("kernels") == "liger" and not has_gpu:
            raise InputError(f"kernels 'liger' needs an NVIDIA GPU, but {each} has {described(each)}: use 'torch'")
        if spec.hyperparameters.get("attention") == "blockwise" and devices is not None:
            raise InputError(f"attention 'blockwise' is for CPUs, but {each} has {described(each)}: use 'auto'")


def device_notes(spec: JobSpec) -> Iterator[str]:
    """Yield warnings about idle devices, and about instance types whose number of devices is unknown."""
    count = device_count(spec.instance_type)
    if not is_known(spec.instance_type):
        yield (
            f"the number of GPUs of {spec.instance_type} is unknown (it is not in the table: {source()}), so "
            f"machine.devices {spec.devices} was not compared with it."
        )
    elif count is not None and spec.devices < count:
        idle = count - spec.devices
        yield (
            f"machine.devices is {spec.devices}, but {spec.instance_type} has {_counted(spec.instance_type)}: "
            f"{idle} {'is' if idle == 1 else 'are'} idle and billed nevertheless; set machine.devices to {count}, or "
            f"choose a smaller instance type."
        )


def _counted(instance_type: str) -> str:
    """Return the number of devices with their noun, such as `4 GPUs`."""
    devices, count = accelerators(instance_type), device_count(instance_type) or 0
    noun = "Neuron core" if devices and devices.kind == "neuron" else "GPU"
    return f"{count} {noun}{'' if count == 1 else 's'}"


def check_isolation(spec: JobSpec) -> None:
    """Raise InputError for an isolated job that needs a network, or whose own channel has the name of the source's.

    SageMaker's agent still moves channels, checkpoints and artifacts, but the container cannot reach S3, the Hub, a
    package index or any other service.
    """
    if not spec.isolate_network:
        return
    if spec.network_uses:
        raise InputError(f"aws.isolate_network leaves the job without a network, but {spec.network_uses[0]}.")
    if CODE_CHANNEL in spec.channels:
        raise InputError(
            f"Channel '{CODE_CHANNEL}' must have another name with aws.isolate_network, which sends the source of the "
            "job under this name."
        )


def shell_safe_hyperparameters(spec: JobSpec) -> Mapping[str, JsonValue]:
    """Return the hyperparameters of a job so that a shell passes them on as they are.

    Those of a script are safe already, because its entry point carries the others. The name of a staged model, such as
    a folder with a blank in its path, gets underscores. Raises InputError for any other value of our own job.
    """
    if spec.is_script:
        return spec.hyperparameters
    safe = dict(spec.hyperparameters)
    for name, value in spec.hyperparameters.items():
        text = str(value)
        if is_shell_safe(text):
            continue
        if name != MODEL or MODEL not in spec.channels:
            raise InputError(
                f"{name} {text!r} cannot be passed on SageMaker: its toolkit starts programs through a shell without "
                "quotes, so only letters, digits and _@%+=:,./- are possible."
            )
        safe[name] = re.sub(r"[^A-Za-z0-9_@%+=:,./-]", "_", text) or MODEL
    return safe


FIELDS: Mapping[str, str] = {
    **SET_BY_FIELDS,
    "EndpointName": "name",
    "ExecutionRoleArn": "aws.role",
    "PrimaryContainer.Image": "image",
    "KmsKeyId": "aws.volume_key",
    "ProductionVariants.0.InstanceType": "machine",
    "ProductionVariants.0.InitialInstanceCount": "machines",
    "ProductionVariants.0.InferenceAmiVersion": "ami",
}
"""Member of a request to the field of an experiment, or the option of `deploy`, that sets it."""
SIZED = {"string": "characters are", "list": "entries are", "map": "entries are"}
NUMBERS = ("integer", "long", "float", "double")


def check_request(model: Any, operation: str, request: Mapping[str, Any]) -> None:
    """Raise InputError for the first value that SageMaker would refuse in a request of `operation`.

    `model` is the `botocore.model.ServiceModel` of SageMaker. The message names our field, the value, the rule and the
    member of the request.
    """
    for path, value, rule in violations(model.operation_model(operation).input_shape, request):
        known = next((at for at in range(len(path), 0, -1) if ".".join(path[:at]) in FIELDS), 0)
        field = FIELDS.get(".".join(path[:known]), "The request")
        shown = "" if value is None else f" {short_text(value)}"
        raise InputError(f"{field}{shown} is not allowed by SageMaker ({'.'.join(path)}): {rule}.")
    check_tags(tag["Key"] for tag in request.get("Tags", ()))


def violations(shape: Any, value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object, str]]:
    """Yield what a value, such as a whole request, contains that its `botocore.model.Shape` does not allow.

    Each violation is the path of members to the value, the value, and the rule. boto3 itself checks only types, lower
    limits and required members.
    """
    kind = shape.type_name
    if kind in SIZED or kind in NUMBERS:
        size, amount = (len(value), SIZED[kind]) if kind in SIZED else (value, "is")
        lowest, highest = shape.metadata.get("min"), shape.metadata.get("max")
        if lowest is not None and size < lowest:
            yield path, value, f"at least {lowest:,} {amount} required"
        if highest is not None and size > highest:
            yield path, value, f"at most {highest:,} {amount} allowed"
    if kind == "structure":
        for name in shape.required_members:
            if name not in value:
                yield (*path, name), None, "a value is required"
        for name, each in value.items():
            if name in shape.members:
                yield from violations(shape.members[name], each, (*path, name))
            else:
                yield (*path, name), each, "SageMaker does not know this member"
    elif kind == "list":
        for at, each in enumerate(value):
            yield from violations(shape.member, each, (*path, str(at)))
    elif kind == "map":
        for name, each in value.items():
            yield from violations(shape.key, name, (*path, name))
            yield from violations(shape.value, each, (*path, name))
    elif kind == "string":
        pattern = shape.metadata.get("pattern")
        if shape.enum and value not in shape.enum:
            hint = nearest(value, shape.enum)
            yield path, value, f"boto3 {boto3.__version__} does not list it.{hint} If it is new, install a newer boto3"
        elif pattern and not regex.fullmatch(pattern, value):
            yield path, value, f"it must match {pattern}"

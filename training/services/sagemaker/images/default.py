"""AWS's image for a job, by compiler, instance types and versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from training.contract.errors import InputError
from training.contract.job_spec import JobSpec
from training.contract.request import TRAINING_COMPILER
from training.services.sagemaker.images import types
from training.services.sagemaker.images.rules import OLDEST_TRANSFORMERS
from training.services.sagemaker.images.table import (
    PYTORCH,
    PYTORCH_NEURON,
    TRANSFORMERS,
    TRANSFORMERS_COMPILER,
    TRANSFORMERS_NEURON,
    Published,
    published_images,
    version_number,
)

REMEDY = "set machine.image to the URI of your own image"


def default_image(spec: JobSpec, region: str) -> str:
    """Return the URI of the newest image that can run the job and has its `image_versions`.

    Raises InputError if AWS publishes none for the instance types, the versions or the region.
    """
    return _uri(chosen(spec), spec.instance_type, region)


def chosen(spec: JobSpec) -> Published:
    """Return the newest image of the table that can run the job. Pure. Raises InputError if none does.

    Scripts may need no Transformers, so they may get an image without.
    """
    all_types = (spec.instance_type, *spec.fallback_instance_types)
    candidates = [each for each in published_images() if each.repository in _families(spec, all_types)]
    if not spec.is_script:
        candidates = [each for each in candidates if _is_recent(each)]
    fitting = [each for each in candidates if not _obstacle(each, all_types)]
    if not fitting:
        raise InputError(f"{_missing(all_types, is_script=spec.is_script)}: {REMEDY}.")
    matching = [each for each in fitting if each.has(dict(spec.image_versions))]
    if not matching:
        raise InputError(
            f"machine.image asks for {_text(spec.image_versions)}, which no image for {', '.join(all_types)} has; "
            f"there are {'; '.join(_row(each) for each in fitting)}."
        )
    # A script gets Transformers where an image with the same right to be chosen has it.
    families = [each.repository for each in matching]
    family = next(each for each in _families(spec, all_types) if each in families)
    # Of equal versions, the last in the table has the newest Neuron SDK; sorting keeps their order.
    return sorted((each for each in matching if each.repository == family), key=_age)[-1]


def _families(spec: JobSpec, all_types: Sequence[str]) -> tuple[str, ...]:
    """Return the families to choose from, the preferred one first."""
    if spec.compiler in TRAINING_COMPILER:
        return (TRANSFORMERS_COMPILER,)
    if any(map(types.is_trainium, all_types)):
        return (TRANSFORMERS_NEURON, PYTORCH_NEURON)
    return (TRANSFORMERS, PYTORCH) if spec.is_script else (TRANSFORMERS,)


def _obstacle(image: Published, all_types: Sequence[str]) -> bool:
    """Return whether the image does not run on one of the types."""
    for each in all_types:
        device = "neuron" if types.is_trainium(each) else "gpu" if types.is_gpu(each) else "cpu"
        if types.is_arm(each) or device not in image.devices:
            return True
        if types.family(each) in types.VOLTA and not image.supports_volta():
            return True
    return False


def _is_recent(image: Published) -> bool:
    return image.transformers is not None and version_number(image.transformers) >= OLDEST_TRANSFORMERS


def _age(image: Published) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return version_number(image.transformers or "0"), version_number(image.pytorch)


def _missing(all_types: Sequence[str], *, is_script: bool) -> str:
    what = "PyTorch" if is_script else "Transformers"
    kind = "Arm CPUs" if any(map(types.is_arm, all_types)) else "CPUs"
    kind = "Trainium" if any(map(types.is_trainium, all_types)) else kind
    return f"AWS publishes no image with {what} for {', '.join(all_types)} ({kind})"


def _text(versions: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {version}" for name, version in versions.items())


def _row(image: Published) -> str:
    return f"transformers {image.transformers} with pytorch {image.pytorch}" if image.transformers else image.pytorch


def _uri(image: Published, instance_type: str, region: str) -> str:
    """Return the address of an image in a region, from the SDK's table of registries."""
    if image.tag is not None:
        return _neuron_uri(image, instance_type, region)
    # Imported here because the imports take seconds.
    from sagemaker.core import image_uris
    from sagemaker.core.training_compiler.config import TrainingCompilerConfig

    options = {"framework": "pytorch", "version": image.pytorch, "py_version": f"py{image.python}"}
    if image.transformers:
        options = {"framework": "huggingface", "version": image.transformers}
        options |= {"base_framework_version": f"pytorch{image.pytorch}", "py_version": f"py{image.python}"}
    has_compiler = image.repository == TRANSFORMERS_COMPILER
    configuration = TrainingCompilerConfig() if has_compiler else None
    try:
        return str(
            image_uris.retrieve(
                region=region,
                instance_type=instance_type,
                image_scope="training",
                training_compiler_config=configuration,
                **options,
            )
        )
    except (ValueError, KeyError) as error:
        reason = (str(error).splitlines() or ["not listed"])[0].rstrip(".")
        raise InputError(
            f"AWS lists no image {image.repository} for {instance_type} in {region} ({reason}): {REMEDY}."
        ) from error


def _neuron_uri(image: Published, instance_type: str, region: str) -> str:
    """Return the address of a Neuron image.

    The SDK cannot: `image_uris.retrieve` refuses Hugging Face images on Trainium ("Supported framework(s) for Trainium
    instances: pytorch"), and its table has wrong versions (4.55.4 with PyTorch 2.7.0). It does not list
    `pytorch-training-neuronx` at all. AWS's examples write the URI by hand. The registries are those that the SDK lists
    for the Hugging Face images.
    """
    from sagemaker.core import image_uris

    versions = image_uris.config_for_framework("huggingface-neuronx")["training"]["versions"]
    frameworks = versions[image.transformers] if image.transformers else list(versions.values())[-1]
    registries = next(entry["registries"] for name, entry in frameworks.items() if name.startswith("pytorch"))
    if region not in registries:
        raise InputError(
            f"AWS lists no image {image.repository} for {instance_type} in {region} (its regions are "
            f"{', '.join(sorted(registries))}): {REMEDY}."
        )
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{registries[region]}.dkr.ecr.{region}.{domain}/{image.repository}:{image.tag}"

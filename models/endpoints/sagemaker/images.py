"""Choose the Hugging Face inference image for a trained model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from training.contract.errors import InputError, nearest
from training.services.sagemaker.clients import Clients

_TRANSFORMERS = re.compile(r"\btransformers (\d+)\.(\d+)(?:\.(\d+))?")

Version = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class InferenceImage:
    """An inference image."""

    uri: str
    note: str | None = None
    """One line on why its Transformers version differs from the training's. None if they are equal."""


def trained_with(versions: str) -> Version | None:
    """Return the Transformers version in a text such as `torch 2.9.0, transformers 5.3.0`, or None."""
    match = _TRANSFORMERS.search(versions)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def chosen(trained: Version | None, listed: Iterable[Version]) -> Version:
    """Return the listed version that fits best for a model saved by version `trained`.

    Only versions with the same major number are compatible. Among them, it is the same version, or the next newer one,
    or the newest older one. If `trained` is None or its major number is not listed, it is the newest of all.
    """
    every = sorted(listed)
    same = [each for each in every if trained and each[0] == trained[0]]
    newer = [each for each in same if trained and each >= trained]
    return newer[0] if newer else (same or every)[-1]


def inference_image(versions: str, machine: str, region: str) -> InferenceImage:
    """Return AWS's inference image for a model trained with `versions`, for an instance type.

    `versions` is a run's tag `platform.versions`. Raises InputError if AWS lists no image.
    """
    # Imported late: the import takes seconds.
    from sagemaker.core import image_uris

    trained = trained_with(versions)
    try:
        listed = image_uris.config_for_framework("huggingface")["inference"]["versions"]
        by_version = {_version(text): text for text in listed}
        text = by_version[chosen(trained, by_version)]
        pytorch = max((key for key in listed[text] if key.startswith("pytorch")), key=_version)
        uri = image_uris.retrieve(
            "huggingface",
            region,
            version=text,
            base_framework_version=pytorch,
            instance_type=machine,
            image_scope="inference",
        )
    except (ValueError, KeyError) as error:
        reason = (str(error).splitlines() or ["not listed"])[0].rstrip(".")
        raise InputError(f"AWS lists no inference image for {machine} in {region} ({reason}): set --image.") from error
    return InferenceImage(uri=str(uri), note=_note(trained, text))


def check_ami(clients: Clients, ami: str | None) -> None:
    """Raise InputError for a version of the machines' system image that SageMaker's API does not list."""
    shape = clients.get("sagemaker").meta.service_model.shape_for("ProductionVariantInferenceAmiVersion")
    if ami is not None and ami not in shape.enum:
        raise InputError(f"--ami is '{ami}': it must be one of {', '.join(shape.enum)}.{nearest(ami, shape.enum)}")


def _note(trained: Version | None, text: str) -> str | None:
    image_version = _version(text)
    if trained == image_version:
        return None
    if trained is None:
        return f"the model's Transformers version is unknown; this is AWS's newest image, with Transformers {text}"
    version = ".".join(map(str, trained))
    if image_version[0] != trained[0]:
        return f"trained with Transformers {version}; AWS has no image of this major version, the newest has {text}"
    if image_version > trained:
        return f"trained with Transformers {version}; AWS's next newer image has {text}"
    return f"trained with Transformers {version}; AWS's newest image has {text}, which may be too old to load the model"


def _version(text: str) -> Version:
    numbers = [int(number) for number in re.findall(r"\d+", text)] + [0, 0, 0]
    return numbers[0], numbers[1], numbers[2]

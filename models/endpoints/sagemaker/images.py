"""Choose the Hugging Face inference image for a trained model."""

from __future__ import annotations

import re
from collections.abc import Iterable

from training.contract.errors import InputError

Version = tuple[int, int, int]


def trained_with(versions: str) -> Version | None:
    """Return the Transformers version in a text such as `torch 2.9.0, transformers 5.3.0`, or None."""
    match = re.search(r"\btransformers (\d+\.\d+(?:\.\d+)?)", versions)
    return _version(match[1]) if match else None


def chosen(trained: Version | None, listed: Iterable[Version]) -> Version:
    """Return the listed version that fits best for a model saved by version `trained`.

    Only versions with the same major number are compatible. Among them, it is the same version, or the next newer one,
    or the newest older one. If `trained` is None or its major number is not listed, it is the newest of all.
    """
    every = sorted(listed)
    same = [each for each in every if trained and each[0] == trained[0]]
    newer = [each for each in same if trained and each >= trained]
    return newer[0] if newer else (same or every)[-1]


def inference_image(versions: str, machine: str, region: str) -> tuple[str, str | None]:
    """Return AWS's inference image for a model, and a remark if its Transformers version is not the training's.

    `versions` is a run's tag `platform.versions`. Raises InputError if AWS lists no image.
    """
    # Imported late: the import takes seconds.
    from sagemaker.core import image_uris

    trained = trained_with(versions)
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


def _version(text: str) -> Version:
    numbers = [int(number) for number in re.findall(r"\d+", text)] + [0, 0, 0]
    return numbers[0], numbers[1], numbers[2]

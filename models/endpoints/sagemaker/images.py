"""Choice of the Hugging Face inference image for a trained model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from training.contract.errors import InputError

_TRANSFORMERS = re.compile(r"\btransformers (\d+)\.(\d+)(?:\.(\d+))?")

Version = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class InferenceImage:
    """An inference image."""

    uri: str
    note: str | None = None
    """One line on why its version is not the training's; None if it is."""


def trained_with(versions: str) -> Version | None:
    """Return the version of Transformers in a text such as `torch 2.9.0, transformers 5.3.0`, or None."""
    match = _TRANSFORMERS.search(versions)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def chosen(trained: Version | None, listed: Iterable[Version]) -> Version:
    """Return the listed version that suits a model saved by `trained`: of one major number, which is the promise of
    compatibility; the same version, else the nearest newer, else the newest older.

    Without `trained`, or where no version of its major number is listed, the newest of all.
    """
    every = sorted(listed)
    same = [each for each in every if trained and each[0] == trained[0]]
    newer = [each for each in same if trained and each >= trained]
    return newer[0] if newer else (same or every)[-1]


def inference_image(versions: str, machine: str, region: str) -> InferenceImage:
    """Return AWS's inference image for a model trained with `versions`, for the processors or GPUs of the machine.

    `versions` is a run's tag `platform.versions`. Raises InputError where AWS lists none.
    """
    # Imported late: it takes seconds.
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
        raise InputError(f"AWS lists no inference image for {machine} in {region} ({reason}): give image.") from error
    return InferenceImage(uri=str(uri), note=_note(trained, text))


def _note(trained: Version | None, text: str) -> str | None:
    have = _version(text)
    if trained == have:
        return None
    if trained is None:
        return f"which Transformers trained the model is not known: the image has the newest that AWS lists, {text}"
    version = ".".join(map(str, trained))
    if have[0] != trained[0]:
        return f"trained with Transformers {version}; AWS lists no image of its major version, the newest is {text}"
    if have > trained:
        return f"trained with Transformers {version}; AWS's nearest newer image has {text}"
    return (
        f"trained with Transformers {version}; AWS's newest image has {text}, which is older: it may refuse the model"
    )


def _version(text: str) -> Version:
    numbers = [int(number) for number in re.findall(r"\d+", text)] + [0, 0, 0]
    return numbers[0], numbers[1], numbers[2]

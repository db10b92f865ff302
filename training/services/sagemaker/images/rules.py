"""Rules about the image of our own job, checked before anything is uploaded. Pure.

A user's script may need none of this, so it may use any image.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from training.contract.errors import InputError
from training.contract.image_address import Image
from training.contract.job_spec import JobSpec
from training.services.sagemaker.images import types
from training.services.sagemaker.images.table import aws_image, cuda_of, version_number

OLDEST_TRANSFORMERS = (4, 21)
"""Oldest version of an AWS image that our job can import. It needs `OptimizerNames`, which the wheels of Transformers
4.6.1, 4.11.0 and 4.12.5 lack, and Python 3.8; the next image of AWS that has both is that of 4.21.1."""

Rule = Callable[[JobSpec, Image], str | None]


def check_image(spec: JobSpec) -> None:
    """Raise InputError if our own job cannot run in the image of a resolved spec."""
    if spec.is_script:
        return
    if message := _region(spec):
        raise InputError(message)
    image = aws_image(spec.image)
    for rule in RULES if image else ():
        if image and (message := rule(spec, image)):
            raise InputError(f"machine.image {spec.image} {message}.")


def _region(spec: JobSpec) -> str | None:
    match = re.match(r"\d{12}\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.", spec.image)
    if match is None or match[1] == spec.region:
        return None
    return (
        f"machine.image {spec.image} is in {match[1]}, but the jobs run in {spec.region}: SageMaker pulls images only "
        "from the region of the job."
    )


def _transformers(_: JobSpec, image: Image) -> str | None:
    if image.transformers is None:
        return (
            "does not contain Transformers, which this training needs: leave machine.image out, choose an image of "
            "huggingface-pytorch-training, or run your own script"
        )
    if version_number(image.transformers) < OLDEST_TRANSFORMERS:
        return (
            f"has Transformers {image.transformers}, and this training needs 4.21 or later: leave machine.image out, "
            'or set it to {transformers: "4.26"} or later versions'
        )
    return None


def _device(spec: JobSpec, image: Image) -> str | None:
    if image.on_neuron:
        return "is for Trainium, on which only your own script runs"
    for each in (spec.instance_type, *spec.fallback_instance_types):
        if types.is_gpu(each) and not image.on_gpu:
            return f"is for CPUs, but {each} has GPUs, which would be billed and not used"
    return None


def _kernels(spec: JobSpec, image: Image) -> str | None:
    for each in (spec.instance_type, *spec.fallback_instance_types):
        if types.family(each) in types.VOLTA and cuda_of(image) >= (13,):
            return (
                f"has PyTorch for CUDA 13, which has no kernels for the V100 of {each}: leave machine.image out, or "
                'set it to {transformers: "4.49"}'
            )
    return None


RULES: tuple[Rule, ...] = (_transformers, _device, _kernels)

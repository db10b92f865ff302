"""Jobs without a network: SageMaker's agent still moves channels, checkpoints and artifacts, but the container cannot
reach S3, the Hub, a package index or any other service."""

from __future__ import annotations

from training.contract.errors import InputError
from training.contract.job_spec import JobSpec
from training.contract.request import CODE_CHANNEL


def check_isolation(spec: JobSpec) -> None:
    """Raise InputError for an isolated job that needs a network, or whose own channel has the name of the source's."""
    if not spec.isolate_network:
        return
    if spec.network_uses:
        raise InputError(f"aws.isolate_network leaves the job without a network, but {spec.network_uses[0]}.")
    if CODE_CHANNEL in spec.channels:
        raise InputError(
            f"Channel '{CODE_CHANNEL}' must have another name with aws.isolate_network, which sends the source of the "
            "job under this name."
        )

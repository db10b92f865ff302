"""Deploy in a separate process, which kills itself with SIGKILL at one of its API calls.

Run as `python -m tests.support.endpoints.deploys FOLDER EVENT`. EVENT is a boto3 event, such as
`after-call.sagemaker.CreateModel`, which fires when the response has arrived.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints


def killed(**_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, event: str) -> None:
    endpoints = SageMakerEndpoints({"role": "trainer"}, print)
    endpoints.clients.get("sagemaker").meta.events.register(event, killed)
    spec = EndpointSpec(
        name="emotion",
        model=Path(folder),
        task="classification",
        run_id="0123abc",
        versions="torch 2.9.0, transformers 5.3.0",
        machine="ml.g4dn.xlarge",
    )
    endpoints.deploy(spec, print)


if __name__ == "__main__":
    main(*sys.argv[1:])

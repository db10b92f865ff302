"""Trainfare's command line with short pauses between its looks at jobs: `python -m` this module VERB."""

from __future__ import annotations

from experiments.__main__ import run
from training.services.sagemaker.service import SageMakerService


def main() -> None:
    """Run the verb in the arguments of this process."""
    SageMakerService.pauses_seconds, SageMakerService.log_delay_seconds = (0.05, 0.5), 0.5
    run()


if __name__ == "__main__":
    main()

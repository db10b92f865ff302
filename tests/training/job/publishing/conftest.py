"""The jobs that tests/job makes."""

from tests.training.job.conftest import job, tiny_model

__all__ = ["job", "tiny_model"]

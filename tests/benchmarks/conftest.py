"""Fixtures of the tests of benchmarks."""

from tests.support.tracking.tracked import tracked

__all__ = ["tracked"]

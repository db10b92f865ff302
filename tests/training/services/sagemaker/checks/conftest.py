"""Requests for an AWS account, as in the tests of the contract."""

from tests.training.contract.conftest import built

__all__ = ["built"]

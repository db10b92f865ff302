"""Build requests for an AWS account: the inputs of the jobs are uploaded to its bucket, but no job is started."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.aws.account import open_account
from tests.support.requests.building import Built


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    folder = tmp_path_factory.mktemp("requests")
    with open_account(folder / "account") as account, pytest.MonkeyPatch.context() as patched:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_PROFILE"):
            patched.delenv(name, raising=False)
        for name, value in account.variables.items():
            patched.setenv(name, value)
        account.clients["s3"].create_bucket(Bucket="bucket")
        yield Built(folder / "home", account)
        assert account.jobs.names() == []

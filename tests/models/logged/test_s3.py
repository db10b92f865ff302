"""A model artifact in S3, read through boto3 from a server that may drop the connection."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mlflow.entities import Run

from tests.support.endpoints.served import Serving
from tests.support.models.made_models import job_run
from tests.support.models.place import Place
from training.contract.errors import AccessError, ArtifactError, Unreachable
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.service import SageMakerService


class Bucket(Serving):
    """Answers each GET with one object; the first `cuts` answers end in the middle."""

    def __init__(self, content: bytes, cuts: int, status: int = 200) -> None:
        self.paths: list[str] = []
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                bucket.paths.append(self.path)
                is_cut = len(bucket.paths) <= cuts
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if is_cut else content)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

        super().__init__(server)


@pytest.fixture
def service_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], SageMakerService]:
    """Returns SageMaker's service with S3 at the given address."""

    def at(url: str) -> SageMakerService:
        variables = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}
        for name, value in {**variables, "AWS_ENDPOINT_URL": url, "AWS_MAX_ATTEMPTS": "1"}.items():
            monkeypatch.setenv(name, value)
        return SageMakerService(Clients())

    return at


def s3_run(place: Place, name: str) -> Run:
    tags = {"platform.model_uri": "s3://bucket/out/job/output/model.tar.gz"}
    return job_run(place.client, place.experiment_id, Path("/"), name, tags)


def test_a_broken_download_is_reported_and_read_again_later(
    place: Place, archive_of: Callable[[str], Path], service_at: Callable[[str], SageMakerService]
) -> None:
    with Bucket(archive_of("classification").read_bytes(), cuts=1) as bucket:
        place.service = service_at(bucket.url)
        run = s3_run(place, "job-1")
        place.log(run)
        address = "s3://bucket/out/job/output/model.tar.gz: "
        assert place.messages[-1].startswith(f"The model of job job-1 was not logged to MLflow: {address}")
        place.log(run)
    assert "platform.model_id" in place.again(run).data.tags


def test_an_artifact_is_not_read_into_memory(service_at: Callable[[str], SageMakerService]) -> None:
    content = bytes(64 * 2**20)
    with Bucket(content, cuts=0) as bucket:
        service = service_at(bucket.url)
        tracemalloc.start()
        try:
            with service.open_model("s3://bucket/model.tar.gz") as stream:
                length = sum(iter(lambda: len(stream.read(2**20)), 0))
            _, most_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert length == len(content)
    assert most_bytes < 16 * 2**20


def test_refusals_of_s3_are_reported(service_at: Callable[[str], SageMakerService]) -> None:
    gone, denied = (b"<Error><Code>%b</Code></Error>" % code for code in (b"NoSuchKey", b"AccessDenied"))
    for status, body, error, message in (
        (404, gone, ArtifactError, "s3://b/k does not exist"),
        (403, denied, AccessError, "s3://b/k: access is denied"),
    ):
        with Bucket(body, 0, status) as bucket:
            service = service_at(bucket.url)
            with pytest.raises(error, match=message), service.open_model("s3://b/k"):
                pass
    service = service_at("http://127.0.0.1:9")
    with pytest.raises(Unreachable, match="s3://b/k: AWS does not answer"), service.open_model("s3://b/k"):
        pass
    with pytest.raises(ArtifactError, match="is not an S3 address"), service.open_model("file:///etc/passwd"):
        pass

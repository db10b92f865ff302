"""The three requests for the emotion workload against those of SageMaker's SDK v2.

What the SDK sends is from its source, v2.257.6: `HuggingFaceModel(model_data=..., role=..., transformers_version=
"4.26.0", pytorch_version="1.13.1", py_version="py39").deploy(1, "ml.g4dn.xlarge")`, by `huggingface/model.py
prepare_container_def`, `model.py _script_mode_env_vars`, `session.py container_def, _create_model_request,
production_variant, endpoint_from_production_variants`; and `predict` by `base_predictor.py` with the JSON serializer.
Every difference is listed with its reason."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import (
    SageMakerEndpoints,
    archive_files,
    archive_key,
    chosen,
    inference_image,
    pack,
)
from tests.support.aws.account import BUCKET, ROLE, Account
from tests.support.aws.api import Api
from tests.support.requests.comparison import Difference, Like, unexplained
from training.contract.errors import InputError
from training.contract.price import Price
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.prices import listed_price

DATA = f"s3://{BUCKET}/trainfare/output/job/output/model.tar.gz"
IMAGE = (
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-inference:"
    "1.13.1-transformers4.26.0-gpu-py39-cu117-ubuntu20.04"
)
NAMED = "huggingface-pytorch-inference-2026-11-22-09-00-00-000"
"""By the SDK: the image's name and the time."""
SDK: dict[str, Any] = {
    "Model.ModelName": NAMED,
    "Model.ExecutionRoleArn": ROLE,
    "Model.PrimaryContainer.Image": IMAGE,
    "Model.PrimaryContainer.ModelDataUrl": DATA,
    "Model.PrimaryContainer.Environment.SAGEMAKER_PROGRAM": "",
    "Model.PrimaryContainer.Environment.SAGEMAKER_SUBMIT_DIRECTORY": "",
    "Model.PrimaryContainer.Environment.SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
    "Model.PrimaryContainer.Environment.SAGEMAKER_REGION": "us-east-1",
    "EndpointConfig.EndpointConfigName": NAMED,
    "EndpointConfig.ProductionVariants.VariantName": "AllTraffic",
    "EndpointConfig.ProductionVariants.ModelName": NAMED,
    "EndpointConfig.ProductionVariants.InitialVariantWeight": 1,
    "EndpointConfig.ProductionVariants.InitialInstanceCount": 1,
    "EndpointConfig.ProductionVariants.InstanceType": "ml.g4dn.xlarge",
    "Endpoint.EndpointName": NAMED,
    "Endpoint.EndpointConfigName": NAMED,
}
OURS = Like(r"trainfare-emotion-[0-9a-f]{10}")
NAMES = ("Model.ModelName", "EndpointConfig.EndpointConfigName", "EndpointConfig.ProductionVariants.ModelName")
EMPTY = ("SAGEMAKER_PROGRAM", "SAGEMAKER_SUBMIT_DIRECTORY")
DIFFERENCES = [
    Difference(
        because="a name that follows from what is asked for: the same command finds what it made",
        theirs=dict.fromkeys((*NAMES, "Endpoint.EndpointConfigName"), NAMED) | {"Endpoint.EndpointName": NAMED},
        ours=dict.fromkeys((*NAMES, "Endpoint.EndpointConfigName"), OURS) | {"Endpoint.EndpointName": "emotion"},
    ),
    Difference(
        because="empty variables say nothing: without code of one's own the toolkit looks for none",
        theirs={f"Model.PrimaryContainer.Environment.{name}": "" for name in EMPTY},
    ),
    Difference(
        because="the toolkit need not guess the task from the model's class",
        ours={"Model.PrimaryContainer.Environment.HF_TASK": "text-classification"},
    ),
]


def flat(value: Any, prefix: str) -> dict[str, Any]:
    """Return the values of a request by dotted name. Lists of one entry are replaced by the entry."""
    if isinstance(value, list):
        [value] = value
    if not isinstance(value, dict):
        return {prefix: value}
    return {name: one for key, inner in value.items() for name, one in flat(inner, f"{prefix}.{key}").items()}


def test_requests_equal_the_sdks_except_for_listed_differences(
    endpoints: SageMakerEndpoints, account: Account, spec: Callable[..., EndpointSpec]
) -> None:
    account.clients["s3"].create_bucket(Bucket=BUCKET)
    account.clients["s3"].put_object(Bucket=BUCKET, Key=DATA.removeprefix(f"s3://{BUCKET}/"), Body=b"packed")
    # Trained by the Training Compiler's image; AWS lists no inference image of its version.
    endpoints.deploy(spec(artifact_uri=DATA, versions="torch 1.11.0, transformers 4.21.1"), lambda _: None)
    sent: dict[str, Any] = {}
    for kind, [name] in account.hosting.names().items():
        sent |= flat(account.hosting.request(kind, name), kind)
    assert unexplained(SDK, sent, DIFFERENCES) == []
    bodies: list[bytes] = []
    account.hosting.serve = lambda _, __, body: (200, bodies.append(body) or b"[]")
    endpoints.predict("emotion", b'{"inputs": "Winter is coming and it will be dark soon."}')
    assert bodies == [b'{"inputs": "Winter is coming and it will be dark soon."}']


LISTED = [Version(text) for text in ("4.26.0", "4.28.1", "4.51.3", "5.5.3")]
CLOSEST = {
    "4.28.1": "4.28.1",
    "4.21.1": "4.26.0",
    "4.26.1": "4.28.1",
    "4.56.2": "4.51.3",
    "5.23.0": "5.5.3",
    "6.0.0": "5.5.3",
}
REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-inference"
OF_4_26 = "1.13.1-transformers4.26.0-{}-ubuntu20.04"
NEWEST = "2.6.0-transformers5.5.3-gpu-py312-cu124-ubuntu22.04"


def test_the_image_fits_the_version_and_the_machine() -> None:
    assert {text: str(chosen(Version(text), LISTED)) for text in CLOSEST} == CLOSEST
    assert chosen(None, LISTED) == Version("5.5.3")
    nearest = "trained with Transformers {}; AWS's nearest image has {}"
    for versions, machine, tag, note in (
        ("transformers 4.26.0", "ml.g4dn.xlarge", OF_4_26.format("gpu-py39-cu117"), None),
        ("transformers 4.26.0", "ml.m5.xlarge", OF_4_26.format("cpu-py39"), None),
        (
            "torch 1.11.0, transformers 4.21.1",
            "ml.g4dn.xlarge",
            OF_4_26.format("gpu-py39-cu117"),
            nearest.format("4.21.1", "4.26.0"),
        ),
        ("", "ml.g5.xlarge", NEWEST, nearest.format("of an unknown version", "5.5.3")),
    ):
        assert inference_image(versions, machine, "us-east-1") == (f"{REGISTRY}:{tag}", note)
    with pytest.raises(InputError, match=r"AWS lists no inference image for banana in us-east-1 \(Invalid SageMaker"):
        inference_image("", "banana", "us-east-1")
    with pytest.raises(InputError, match=r"AWS lists no inference image for ml\.g5\.xlarge in mars-1"):
        inference_image("", "ml.g5.xlarge", "mars-1")


PRICES = {"Training": "0.7364", "Hosting": "0.7375"}


def products(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the price list's response for one instance type."""
    fields = {each["Field"]: each["Value"] for each in request["Filters"]}
    assert (fields["regionCode"], fields["instanceName"]) == ("us-east-1", "ml.g4dn.xlarge")
    rate = {"unit": "Hrs", "pricePerUnit": {"USD": PRICES[fields["component"]]}}
    terms = {"OnDemand": {"SKU.OFFER": {"priceDimensions": {"RATE": rate}}}}
    return {"PriceList": [json.dumps({"terms": terms, "publicationDate": "2026-10-01T00:00:00Z"})]}


def test_hosting_has_a_separate_price(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clients, cache = Clients(), tmp_path / "prices.json"
    with Api("pricing", {"GetProducts": products}) as served:
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", served.url)
        for _ in range(2):
            training = listed_price(clients, "ml.g4dn.xlarge", cache, print)
            hosting = listed_price(clients, "ml.g4dn.xlarge", cache, print, "Hosting")
            assert training == Price(usd_per_hour=0.7364, source="AWS price list", date="2026-10-01")
            assert hosting == Price(usd_per_hour=0.7375, source="AWS price list", date="2026-10-01")
        assert len(served.calls) == 2


def test_the_key_depends_on_the_content(folder: Path, tmp_path: Path) -> None:
    first = archive_key(archive_files(folder, with_code=False))
    (folder / ".cache").mkdir()
    (folder / ".cache" / "lock").write_text("not the model's")
    assert archive_key(archive_files(folder, with_code=False)) == first
    assert archive_key(archive_files(folder, with_code=True)) != first
    (folder / "model.safetensors").write_bytes(b"others")
    assert archive_key(archive_files(folder, with_code=False)) != first
    # Links are followed: folders of the Hub's cache contain only links.
    linked = tmp_path / "linked"
    linked.mkdir()
    for path in folder.glob("*.*"):
        (linked / path.name).symlink_to(path)
    with tarfile.open(pack(archive_files(linked, with_code=False), tmp_path / "model.tar.gz")) as tar:
        assert all(each.isfile() for each in tar)


def test_a_model_is_uploaded_once_or_is_the_jobs_own(
    endpoints: SageMakerEndpoints, account: Account, spec: Callable[..., EndpointSpec]
) -> None:
    def archives() -> list[bytes]:
        requests = [account.hosting.request("Model", name) for name in account.hosting.names()["Model"]]
        return [account.hosting.model_archive(request) for request in requests]

    before = len(account.calls)
    for name in ("emotion", "emotion-2"):
        endpoints.deploy(spec(name=name), print)
    assert len([call for _, call in account.calls[before:] if call.startswith("PUT") and "model.tar.gz" in call]) == 1
    for archive in archives():
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            assert sorted(tar.getnames()) == ["config.json", "model.safetensors", "tokenizer.json"]
    account.hosting.clear()
    account.clients["s3"].put_object(Bucket=BUCKET, Key="job/output/model.tar.gz", Body=b"packed")
    endpoints.deploy(spec(artifact_uri=f"s3://{BUCKET}/job/output/model.tar.gz"), print)
    assert archives() == [b"packed"]
    # One that was deleted since is packed.
    endpoints.deploy(spec(name="again", artifact_uri=f"s3://{BUCKET}/job/deleted/model.tar.gz"), print)
    assert len(archives()[0]) > len(b"packed")

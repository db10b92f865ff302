"""The three requests for the emotion workload against those of SageMaker's SDK v2.

What the SDK sends is from its source, v2.257.6: `HuggingFaceModel(model_data=..., role=..., transformers_version=
"4.26.0", pytorch_version="1.13.1", py_version="py39").deploy(1, "ml.g4dn.xlarge")`, by `huggingface/model.py
prepare_container_def`, `model.py _script_mode_env_vars`, `session.py container_def, _create_model_request,
production_variant, endpoint_from_production_variants`; and `predict` by `base_predictor.py` with the JSON serializer.
Every difference is listed with its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints
from tests.support.aws.account import BUCKET, ROLE, Account
from tests.support.requests.comparison import Difference, Like, unexplained

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

"""The plan of a job on Trainium, which reads only and names image, launcher and cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.conftest import CommandLine
from tests.support.aws.account import Account
from tests.support.requests.images import FOR_TRAINIUM
from training.services.local import toolkit

pytestmark = pytest.mark.slow

TRN1 = {"service": "sagemaker", "aws.role": "trainer", "machine.instance_type": "ml.trn1.2xlarge"}
NEURON = {"compiler": "neuron", "padding": "max_length", "machine.devices": 2}


def test_the_plan_shows_the_request_of_a_job_on_trainium(
    command_line: CommandLine, reviews: dict[str, object], account: Account, tmp_path: Path
) -> None:
    account.make_role()
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.trn1.2xlarge": 3600.0}}))
    done = command_line(
        "train", {**reviews, **TRN1, **NEURON, "aws.prices": prices, "dry-run": "true", "format": "json"}
    )
    plan = json.loads(done.stdout)
    assert (plan["exit_code"], plan["refusals"]) == (0, [])
    for job in plan["jobs"]:
        request, hyperparameters = job["request"], toolkit.decoded(job["request"]["HyperParameters"])
        assert request["AlgorithmSpecification"]["TrainingImage"].endswith(f"/{FOR_TRAINIUM}")
        assert request["Environment"]["NEURON_COMPILE_CACHE_URL"].startswith("s3://")
        assert hyperparameters["sagemaker_torch_distributed_enabled"] is True
        assert (hyperparameters["compiler"], hyperparameters["padding"]) == ("neuron", "max_length")
        assert job["price"]["usd_per_hour"] == 3600.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"compiler": "none"}, "compiler 'none' does not run on ml.trn1.2xlarge: Trainium needs the compiler 'neuron'"),
        (
            {"machine.devices": 4},
            "machine.devices is 4, but ml.trn1.2xlarge has 2 Neuron cores, and launcher 'torchrun'",
        ),
        ({"machine.instance_type": "ml.g5.xlarge"}, "compiler 'neuron' runs only on Trainium, such as ml.trn1.2xlarge"),
        ({"padding": "longest"}, "compiler 'neuron' needs padding 'max_length' or 'buckets', not 'longest'"),
    ],
)
def test_a_job_that_cannot_run_on_trainium_is_refused_in_one_sentence(
    command_line: CommandLine, reviews: dict[str, object], account: Account, fields: dict[str, object], message: str
) -> None:
    account.make_role()
    done = command_line("train", {**reviews, **TRN1, **NEURON, **fields})
    assert done.returncode in {1, 2}, done.stdout + done.stderr
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert account.jobs.names() == []

"""Scripts on SageMaker: what they get, jobs without a network, and data in the user's own bucket."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.aws.account import Account
from tests.support.aws.rights import allowed
from tests.support.services.harness import SageMakerHarness
from tests.training.services.sagemaker.conftest import Terminal

ARCHIVE = "/opt/ml/input/data/code/sourcedir.tar.gz"
REFUSED = [
    (
        ", secrets: {HF_TOKEN: hub/token}",
        "script.secrets.HF_TOKEN is read from AWS Secrets Manager inside the job",
    ),
    (
        ", hyperparameters: {model_name_or_path: distilgpt2}",
        "script.hyperparameters.model_name_or_path 'distilgpt2' names something on the Hub: pass it as a folder in",
    ),
    (", hyperparameters: {push_to_hub: true}", "script.hyperparameters.push_to_hub True names something"),
    (", channels: {code: code}", "Channel 'code' must have another name with aws.isolate_network"),
]
URI = "s3://team-data/rows/"
READS_FILES = """\
import os
from pathlib import Path
folder = Path(os.environ["SM_CHANNEL_TRAIN"])
files = sorted((path.relative_to(folder).as_posix(), path.read_text()) for path in folder.rglob("*.txt"))
print(f"READ {files}")
"""
EXPERIMENT = f"""\
script: {{source: code, channels: {{train: {URI}}}}}
service: sagemaker
machine: {{instance_type: ml.g5.xlarge}}
aws: {{role: trainer, prices: prices.json}}
"""


def test_an_isolated_job_gets_its_source_and_data_from_channels_alone(tmp_path: Path, account: Account) -> None:
    harness = SageMakerHarness(tmp_path, account)
    channels = {"train": harness.folder("data", {"rows.csv": "1,2"})}
    request = harness.request("pass", channels=channels, isolate_network=True)
    hyperparameters, inputs = request["HyperParameters"], request["InputDataConfig"]
    assert json.loads(hyperparameters["sagemaker_submit_directory"]) == ARCHIVE
    [code] = [each["DataSource"]["S3DataSource"] for each in inputs if each["ChannelName"] == "code"]
    assert code["S3Uri"].endswith("/sourcedir.tar.gz")
    assert (code["S3DataType"], code["S3DataDistributionType"]) == ("S3Prefix", "FullyReplicated")


def test_what_needs_a_network_is_refused_before_an_upload(terminal: Terminal, account: Account, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print(1)\n")
    fields = {"service": "sagemaker", "machine.instance_type": "ml.g5.xlarge", "aws.role": "trainer"}
    fields |= {"experiment": "own.yaml", "aws.isolate_network": "true"}
    words = [word for name, value in fields.items() for word in (f"--{name}", value)]

    def refusal(text: str) -> str:
        (tmp_path / "own.yaml").write_text(f"script: {{source: code{text}}}\n")
        output = terminal.run("train", *words)
        assert output.code == 2, output
        [line] = output.error.splitlines()
        return line

    for text, message in REFUSED:
        assert message in refusal(text)
    (tmp_path / "code" / "requirements.txt").write_text("# packages\nevaluate\n")
    message = "requirements.txt of the script is installed from a package index (evaluate): remove it, and use"
    assert message in refusal("")
    assert account.jobs.names() == []
    assert not [call for _, call in account.calls if call.startswith("PUT /") and call.count("/") > 1]
    # Paths and empty requirements need no network.
    (tmp_path / "code" / "requirements.txt").write_text("# nothing\n")
    paths = ", hyperparameters: {model_name_or_path: /opt/ml/input/data/model, push_to_hub: false}"
    (tmp_path / "own.yaml").write_text(f"script: {{source: code{paths}}}\n")
    output = terminal.run("plan", "train", *words, "--aws.prices", str(terminal.fields["aws.prices"]))
    assert output.code == 0, output


@pytest.fixture
def stored(account: Account, tmp_path: Path) -> Account:
    """An account with data in a bucket of the user's, and a script that reads it."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(READS_FILES)
    (tmp_path / "own.yaml").write_text(EXPERIMENT)
    account.clients["s3"].create_bucket(Bucket="team-data")
    account.clients["s3"].put_object(Bucket="team-data", Key="rows/a.txt", Body=b"1")
    account.clients["s3"].put_object(Bucket="team-data", Key="rows/inner/b.txt", Body=b"2")
    return account


@pytest.mark.slow
def test_a_script_reads_objects_where_they_are(terminal: Terminal, stored: Account, tmp_path: Path) -> None:
    output = terminal.run("train", "--experiment", str(tmp_path / "own.yaml"))
    assert output.code == 0, output
    [name] = stored.jobs.names()
    source = {"S3DataType": "S3Prefix", "S3Uri": URI, "S3DataDistributionType": "FullyReplicated"}
    assert stored.jobs.request(name)["InputDataConfig"] == [
        {"ChannelName": "train", "DataSource": {"S3DataSource": source}}
    ]
    calls = [call for _, call in stored.calls if "/team-data" in call]
    assert {call.partition("?")[0] for call in calls} == {"HEAD /team-data", "GET /team-data"}
    [run] = terminal.runs()
    log = Path(terminal.client.download_artifacts(run.info.run_id, "log.txt")).read_text()
    assert "READ [('a.txt', '1'), ('inner/b.txt', '2')]" in log
    [used] = run.inputs.dataset_inputs
    assert "train: s3://team-data/rows/ (2 objects, 0.0 MB)" in used.dataset.source

    # Changed data is another dataset and another group; equal data is the same one.
    for body in (b"changed", b"1"):
        stored.clients["s3"].put_object(Bucket="team-data", Key="rows/a.txt", Body=body)
        assert terminal.run("train", "--experiment", str(tmp_path / "own.yaml")).code == 0
    digests = [each.inputs.dataset_inputs[0].dataset.digest for each in terminal.runs()]
    assert digests[0] == digests[2] != digests[1]
    assert len(terminal.runs("group")) == 3


def test_the_documented_permissions_cover_the_users_bucket() -> None:
    """Users list the objects, and the role of the jobs lists and reads them."""
    values = {"PARTITION": "aws", "DATA-BUCKET": "team-data"}
    assert allowed("s3:ListBucket", "arn:aws:s3:::team-data", ("data",), **values)
    assert allowed("s3:GetObject", "arn:aws:s3:::team-data/rows/a.txt", ("data",), **values)
    assert not allowed("s3:PutObject", "arn:aws:s3:::team-data/rows/a.txt", ("data",), **values)

"""Scripts read data that stays in the user's own bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aws.account import Account
from tests.support.aws.rights import allowed
from tests.training.services.sagemaker.conftest import Terminal

URI = "s3://team-data/rows/"
SCRIPT = """\
import os
from pathlib import Path
folder = Path(os.environ["SM_CHANNEL_TRAIN"])
print("READ", sorted((path.relative_to(folder).as_posix(), path.read_text()) for path in folder.rglob("*.txt")))
"""
EXPERIMENT = f"""\
script: {{source: code, channels: {{train: {URI}}}}}
service: sagemaker
machine: {{instance_type: ml.g5.xlarge}}
aws: {{role: trainer, prices: prices.json}}
"""


@pytest.fixture
def stored(account: Account, tmp_path: Path) -> Account:
    """An account with data in a bucket of the user's, and a script that reads it."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(SCRIPT)
    (tmp_path / "own.yaml").write_text(EXPERIMENT)
    account.clients["s3"].create_bucket(Bucket="team-data")
    put(account, a="1", **{"inner/b": "2"})
    return account


def put(account: Account, **texts: str) -> None:
    for name, text in texts.items():
        account.clients["s3"].put_object(Bucket="team-data", Key=f"rows/{name}.txt", Body=text.encode())


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
    put(stored, a="changed")
    assert terminal.run("train", "--experiment", str(tmp_path / "own.yaml")).code == 0
    put(stored, a="1")
    assert terminal.run("train", "--experiment", str(tmp_path / "own.yaml")).code == 0
    digests = [each.inputs.dataset_inputs[0].dataset.digest for each in terminal.runs()]
    assert digests[0] != digests[1]
    assert digests[0] == digests[2]
    assert len(terminal.runs("group")) == 3


def test_missing_data_is_refused_before_anything_starts(terminal: Terminal, stored: Account, tmp_path: Path) -> None:
    output = terminal.run(
        "train", "--experiment", str(tmp_path / "own.yaml"), "--script.channels.train", "s3://team-data/row/"
    )
    assert output.code == 2
    [line] = output.error.splitlines()
    assert "script.channels.train 's3://team-data/row/': no object of bucket team-data has a key that begins" in line
    assert (terminal.runs(), stored.jobs.names()) == ([], [])
    assert not [call for _, call in stored.calls if call.startswith("PUT /") and call.count("/") > 1]


def test_a_local_job_does_not_read_s3(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(f"script: {{source: code, channels: {{train: {URI}}}}}\n")
    output = terminal.run("train", "--experiment", str(tmp_path / "own.yaml"))
    assert output.code == 2
    assert (
        f"script.channels.train '{URI}' is read only on SageMaker: set service to sagemaker, or download the data and "
        "name its folder"
    ) in output.error


@pytest.mark.parametrize("policy", ["data"])
def test_the_documented_permissions_cover_the_users_bucket(policy: str) -> None:
    """Users list the objects, and the role of the jobs lists and reads them."""
    values = {"PARTITION": "aws", "DATA-BUCKET": "team-data"}
    assert allowed("s3:ListBucket", "arn:aws:s3:::team-data", (policy,), **values)
    assert allowed("s3:GetObject", "arn:aws:s3:::team-data/rows/a.txt", (policy,), **values)
    assert not allowed("s3:PutObject", "arn:aws:s3:::team-data/rows/a.txt", (policy,), **values)

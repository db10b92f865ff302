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
files = sorted((path.relative_to(folder).as_posix(), path.read_text()) for path in folder.rglob("*.txt"))
print(f"READ {files}")
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
        put_object(account, f"rows/{name}.txt", text)


def put_object(account: Account, key: str, text: str) -> None:
    account.clients["s3"].put_object(Bucket="team-data", Key=key, Body=text.encode())


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


def test_a_file_system_needs_a_network(terminal: Terminal, stored: Account, tmp_path: Path) -> None:
    channel = "{file_system: fs-0123abcd, kind: EFS, path: /rows}"
    (tmp_path / "own.yaml").write_text(EXPERIMENT.replace(URI, channel))
    output = terminal.run("train", "--experiment", str(tmp_path / "own.yaml"))
    assert output.code == 2
    assert "channel 'train' is in a file system, which needs aws.subnets and aws.security_groups to reach it" in (
        output.error
    )
    assert stored.jobs.names() == []


def test_a_plan_shows_the_channels_as_they_would_be_sent(terminal: Terminal, stored: Account, tmp_path: Path) -> None:
    channels = f"train: {URI}, images: {{file_system: fs-0123abcd, kind: EFS, path: /rows}}"
    text = EXPERIMENT.replace(f"train: {URI}", channels)
    (tmp_path / "own.yaml").write_text(text.replace("role:", "subnets: [subnet-1], security_groups: [sg-1], role:"))
    output = terminal.run("train", "--experiment", str(tmp_path / "own.yaml"), "--dry-run")
    assert output.code == 0, output
    shown = " ".join(output.out.split())
    assert f"train: {URI} (2 objects, 0.0 MB), images: efs://fs-0123abcd/rows" in shown, output.out
    assert "script.channels.images is a directory of a file system: the version of its files" in shown
    assert not [call for _, call in stored.calls if call.startswith("PUT ")]


@pytest.mark.slow
def test_a_task_trains_on_data_from_s3(terminal: Terminal, account: Account, tmp_path: Path) -> None:
    account.clients["s3"].create_bucket(Bucket="team-data")
    for name in ("rows.jsonl", "more.jsonl"):
        put_object(account, name, (tmp_path / name).read_text())
    uris = {"data.train": "s3://team-data/rows.jsonl", "data.validation": "s3://team-data/more.jsonl"}
    output = terminal("train", uris)
    assert output.code == 0, output
    [run] = terminal.runs()
    [used, *_] = run.inputs.dataset_inputs
    assert "s3://team-data/rows.jsonl (1 object" in used.dataset.source
    assert not [path for path in (tmp_path / "home").rglob("*") if path.suffix == ".jsonl" and "rows" in path.name]


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


def test_the_documented_permissions_cover_the_users_bucket() -> None:
    """Users list the objects, and the role of the jobs lists and reads them."""
    values = {"PARTITION": "aws", "DATA-BUCKET": "team-data"}
    assert allowed("s3:ListBucket", "arn:aws:s3:::team-data", ("data",), **values)
    assert allowed("s3:GetObject", "arn:aws:s3:::team-data/rows/a.txt", ("data",), **values)
    assert not allowed("s3:PutObject", "arn:aws:s3:::team-data/rows/a.txt", ("data",), **values)

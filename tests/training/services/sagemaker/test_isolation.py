"""Jobs without a network: the source is a channel, and whatever needs a network is refused before an upload.

SageMaker's SDK v2 (2.257.7) sends the source as a channel named `code` (`job.py`, `_Job._load_config`), and sets
`sagemaker_submit_directory` to its path (`estimator.py`, `CONTAINER_CODE_CHANNEL_SOURCEDIR_PATH`). The toolkit unpacks
a source that is not in S3 from that path (sagemaker-training 5.1.4, `test_install_local_directory`).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.aws.account import BUCKET, Account
from tests.support.services.following import ended
from tests.support.services.harness import SageMakerHarness
from tests.training.services.sagemaker.conftest import Terminal
from training.services.launcher import submit

ARCHIVE = "/opt/ml/input/data/code/sourcedir.tar.gz"
SCRIPT = """
    import os, socket
    from pathlib import Path
    print("data " + (Path(os.environ["SM_CHANNEL_TRAIN"]) / "rows.csv").read_text())
    try:
        socket.create_connection(("127.0.0.1", {port}), timeout=5)
    except OSError as error:
        print("no network " + type(error).__name__)
"""


def uploads(account: Account) -> list[str]:
    listed = account.clients["s3"].list_buckets()["Buckets"]
    if BUCKET not in {each["Name"] for each in listed}:
        return []
    return [each["Key"] for each in account.clients["s3"].list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def port_of(account: Account) -> str:
    """Return a port of this machine on which the account's S3 listens."""
    return account.variables["AWS_ENDPOINT_URL"].rpartition(":")[2]


@pytest.mark.slow
def test_an_isolated_job_gets_its_source_and_data_from_channels_alone(tmp_path: Path, account: Account) -> None:
    harness = SageMakerHarness(tmp_path, account)
    channels = {"train": harness.folder("data", {"rows.csv": "1,2"})}
    script = SCRIPT.format(port=port_of(account))
    request = harness.request(script, channels=channels, isolate_network=True)
    hyperparameters, inputs = request["HyperParameters"], request["InputDataConfig"]
    assert json.loads(hyperparameters["sagemaker_submit_directory"]) == ARCHIVE
    [code] = [each["DataSource"]["S3DataSource"] for each in inputs if each["ChannelName"] == "code"]
    assert code["S3Uri"].endswith("/sourcedir.tar.gz")
    assert (code["S3DataType"], code["S3DataDistributionType"]) == ("S3Prefix", "FullyReplicated")
    description, lines = ended(submit(harness.service, request))
    assert description["TrainingJobStatus"] == "Completed", lines
    assert [line for line in lines if line.startswith(("data", "no network"))] == [
        "data 1,2",
        "no network ConnectionRefusedError",
    ]
    # Without isolation, the same script reaches the network.
    _, lines = ended(submit(harness.service, harness.request(script, name="open", channels=channels)))
    assert [line for line in lines if line.startswith(("data", "no network"))] == ["data 1,2"]


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
    assert (uploads(account), account.jobs.names()) == ([], [])
    # Paths and empty requirements need no network.
    (tmp_path / "code" / "requirements.txt").write_text("# nothing\n")
    paths = ", hyperparameters: {model_name_or_path: /opt/ml/input/data/model, push_to_hub: false}"
    (tmp_path / "own.yaml").write_text(f"script: {{source: code{paths}}}\n")
    output = terminal.run("plan", "train", *words, "--aws.prices", str(terminal.fields["aws.prices"]))
    assert output.code == 0, output

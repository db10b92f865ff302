"""A script gets the same arguments, variables and secrets on SageMaker as on this machine."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.aws.account import BUCKET, Account
from tests.support.hub.secrets_server import keeping
from tests.training.services.sagemaker.conftest import Terminal
from training.services.sagemaker.service import GROUP

pytestmark = pytest.mark.slow

SCRIPT = """\
import argparse, json, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("config")
parser.add_argument("folder")
parser.add_argument("--cpu", action="store_true")
parser.add_argument("--amp", action=argparse.BooleanOptionalAction)
parser.add_argument("--files", nargs="+")
parser.add_argument("--out")
parser.parse_args()
base = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
view = [sys.argv, os.environ["GREETING"], len(os.environ["HF_TOKEN"]), os.environ["SM_USER_ENTRY_POINT"]]
print("VIEW " + json.dumps(view).replace(base, "/opt/ml"))
"""
EXPERIMENT = """\
script:
  source: code
  entry_point: train.py "a b; it's (x) *" /opt/ml/model --no-amp
  arguments: {booleans: flag}
  hyperparameters: {cpu: true, files: [x, /opt/ml/model], out: /opt/ml/model}
  environment: {GREETING: hello}
  secrets: {HF_TOKEN: hub/token}
machine: {cores: 1}
"""
TOKEN = "v3ry-secret-token"
EXPECTED = [
    [
        "train.py",
        "a b; it's (x) *",
        "/opt/ml/model",
        "--no-amp",
        "--cpu",
        "--files",
        "x",
        "/opt/ml/model",
        "--out",
        "/opt/ml/model",
    ],
    "hello",
    len(TOKEN),
    "train.py",
]


def view(terminal: Terminal, tmp_path: Path, **fields: object) -> Any:
    """Train, and return what the script printed about its own arguments and variables."""
    words = [word for name, value in fields.items() for word in (f"--{name}", str(value))]
    output = terminal.run("train", "--experiment", str(tmp_path / "own.yaml"), *words)
    assert output.code == 0, output
    assert TOKEN not in output.out + output.error
    run = terminal.runs()[-1]
    log = Path(terminal.client.download_artifacts(run.info.run_id, "log.txt")).read_text()
    files = [
        path for path in Path(terminal.client.download_artifacts(run.info.run_id, "")).rglob("*") if path.is_file()
    ]
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]
    assert TOKEN not in json.dumps([each.to_dictionary() for kind in ("job", "group") for each in terminal.runs(kind)])
    return json.loads(log.split("VIEW ")[1].splitlines()[0])


def test_a_script_gets_the_same_on_both_services(
    terminal: Terminal, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(SCRIPT)
    (tmp_path / "own.yaml").write_text(EXPERIMENT)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert view(terminal, tmp_path) == EXPECTED

    # On SageMaker the job gets no variable of this machine; its role gives it access to Secrets Manager.
    (tmp_path / "own.yaml").write_text(EXPERIMENT.replace("machine: {cores: 1}\n", ""))
    monkeypatch.delenv("HF_TOKEN")
    with keeping({"hub/token": TOKEN}) as url:
        (tmp_path / ".aws").mkdir()
        (tmp_path / ".aws" / "credentials").write_text("[default]\naws_access_key_id = x\naws_secret_access_key = x\n")
        (tmp_path / ".aws" / "config").write_text(f"[default]\nendpoint_url = {url}\n")
        monkeypatch.setenv("HOME", str(tmp_path))
        aws = {"service": "sagemaker", "machine.instance_type": "ml.g5.xlarge", "aws.role": "trainer"}
        prices = {"aws.prices": terminal.fields["aws.prices"]}
        assert view(terminal, tmp_path, **aws, **prices) == EXPECTED
    assert TOKEN not in json.dumps([account.jobs.request(name) for name in account.jobs.names()], default=str)
    assert not [path for path in kept(tmp_path) if TOKEN.encode() in path.read_bytes()]
    s3 = account.clients["s3"]
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert any(key.endswith("sourcedir.tar.gz") for key in keys)
    for key in keys:
        content = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        assert TOKEN.encode() not in (gzip.decompress(content) if key.endswith(".gz") else content), key
    events = account.clients["logs"].filter_log_events(logGroupName=GROUP)["events"]
    assert any("VIEW" in event["message"] for event in events)
    assert TOKEN not in json.dumps(events)


def kept(folder: Path) -> list[Path]:
    """Return the files that the commands left: the state folder, the tracking database and the job's container."""
    return [path for path in folder.rglob("*") if path.is_file()]

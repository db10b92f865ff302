"""Local records of SageMaker endpoints: none that costs money is forgotten, none in use is deleted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.deployments.known_endpoints import read_records
from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints
from tests.conftest import ROOT
from tests.support.aws.account import ACCOUNT, Account


def started(words: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "experiments", *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not is_so():
        assert process.poll() is None
        time.sleep(0.05)


def test_an_endpoint_is_recorded_with_its_account_and_region(deploy: list[str], account: Account) -> None:
    assert main(deploy) == 0
    [record] = read_records()
    assert (record.name, record.account, record.region) == ("emotion", ACCOUNT, "us-east-1")
    # Another of its name, in another region.
    other = replace(record, aws={**record.aws, "region": "eu-west-1"})
    other.save()
    assert {each.region for each in read_records()} == {"us-east-1", "eu-west-1"}
    assert main(["undeploy", "--endpoint", "emotion", "--aws.region", "us-east-1"]) == 0
    assert account.hosting.names() == {}
    assert read_records() == [other]


def test_an_ambiguous_endpoint_name_is_refused(
    deploy: list[str], account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(deploy) == 0
    [record] = read_records()
    replace(record, aws={**record.aws, "region": "eu-west-1"}).save()
    capsys.readouterr()
    assert main(["predict", "--endpoint", "emotion", "--text", "x"]) == 2
    assert capsys.readouterr().err == (
        f"error: several endpoints are named 'emotion' (sagemaker {ACCOUNT} eu-west-1, sagemaker {ACCOUNT} "
        "us-east-1): add --service or --aws.region.\n"
    )


def test_an_endpoint_in_a_different_account_is_remembered(
    deploy: list[str], account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(deploy) == 0
    [record] = read_records()
    record.remove()
    theirs = replace(record, account="210987654321", expires=1.0, when_over="delete")
    theirs.save()
    capsys.readouterr()
    assert main(["undeploy", "--all", "true"]) == 1
    output = capsys.readouterr()
    assert "Endpoint emotion (sagemaker) is past its lifetime" not in output.err  # undeploy looks by itself
    owner = "endpoints that were deployed from here belong to AWS account 210987654321, but the credentials belong to "
    assert f"error: {owner}account {ACCOUNT}." in output.out
    main(["endpoints"])
    assert "checking it failed: endpoint emotion belongs to AWS account 210987654321" in capsys.readouterr().err
    assert read_records() == [theirs]
    assert account.hosting.names() != {}


def test_the_endpoints_own_lifetime_takes_precedence(
    deploy: list[str], account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another machine extended the lifetime beyond the one recorded here."""
    assert main([*deploy, "--lifetime", "1h", "--when_over", "delete"]) == 0
    [record] = read_records()
    replace(record, expires=1.0).save()
    capsys.readouterr()
    assert main(["endpoints"]) == 0
    assert capsys.readouterr().err == ""
    assert account.hosting.names() != {}
    assert read_records() == [record]


def test_endpoints_of_one_region_are_listed_once(
    deploy: list[str], account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(deploy) == 0
    again = [word if word != "emotion" else "joy" for word in deploy]
    assert main([*again, "--aws.tags", "{team: a}"]) == 0
    account.hosting.kinds["Endpoint"]["emotion"].created -= timedelta(hours=1)
    capsys.readouterr()
    assert main(["endpoints"]) == 0
    output = capsys.readouterr().out
    assert output.count("arn:aws:sagemaker:us-east-1:123456789012:endpoint/emotion") == 1
    # An hour at 36 USD, and some seconds for both. Counted twice, it would be at least 72 USD.
    assert 36 <= float(output.splitlines()[-1].split()[0]) < 60


def test_an_unreadable_price_table_is_refused_before_anything_is_created(
    deploy: list[str], account: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prices.json").write_text("{")
    assert main(deploy) == 2
    assert "prices.json must be JSON such as" in capsys.readouterr().err
    assert "CreateModel" not in [call for _, call in account.api.calls]


def test_a_missing_price_table_hides_no_endpoint(
    deploy: list[str], account: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(deploy) == 0
    (tmp_path / "prices.json").unlink()
    capsys.readouterr()
    assert main(["endpoints"]) == 0
    output = capsys.readouterr()
    assert "endpoint/emotion" in output.out
    assert "Note: costs are omitted: Price table" in output.err


def test_costs_on_earlier_machines_are_included(
    endpoints: SageMakerEndpoints, account: Account, spec: Callable[..., EndpointSpec], tmp_path: Path
) -> None:
    prices = '{"date": "2026-11-01", "usd_per_hour": {"ml.g4dn.xlarge": 36, "ml.g5.xlarge": 72}}'
    (tmp_path / "prices.json").write_text(prices)
    endpoints.deploy(spec(), print)
    account.hosting.kinds["Endpoint"]["emotion"].created -= timedelta(seconds=10_000)
    state = endpoints.deploy(spec(machine="ml.g5.xlarge", replace=True), print)
    assert state.billed_before_usd == pytest.approx(100, abs=4)
    later = datetime.now(UTC) + timedelta(seconds=10_000)
    assert state.usd_so_far(later) == pytest.approx(100 + 200, abs=4)
    state = endpoints.deploy(spec(run_id="9999fff", machine="ml.g4dn.xlarge", replace=True), print)
    assert state.usd_so_far(later) == pytest.approx(100 + 100, abs=4)
    account.hosting.kinds["Endpoint"]["emotion"].status = "Failed"
    assert endpoints.describe("emotion").usd_so_far(later) == pytest.approx(100, abs=4)


@pytest.mark.slow
def test_a_closed_terminal_leaves_nothing(deploy: list[str], account: Account) -> None:
    """The command deletes its resources even if its output can no longer be written."""
    account.hosting.looks = 1_000_000
    with started(deploy) as process:
        wait_until(lambda: "Endpoint" in account.hosting.names(), process)
        assert process.stdout
        process.stdout.close()
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: "DeleteEndpoint" in [call for _, call in account.api.calls], process)
        account.hosting.kinds["Endpoint"]["emotion"].looks = account.hosting.looks = 0
        assert process.wait(480) == 130
    assert account.hosting.names() == {}
    assert read_records() == []


@pytest.mark.slow
def test_a_killed_deploy_has_recorded_its_lifetime(deploy: list[str], account: Account) -> None:
    account.hosting.looks = 1_000_000
    with started([*deploy, "--lifetime", "1h", "--when_over", "delete"]) as process:
        wait_until(lambda: "Endpoint" in account.hosting.names(), process)
        process.kill()
    [record] = read_records()
    assert record.expires == pytest.approx(time.time() + 3600, abs=120)
    assert record.when_over == "delete"


@pytest.mark.slow
def test_a_change_interrupted_on_another_machine_deletes_nothing(
    deploy: list[str], account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The endpoint stays in use, and its record has no end."""
    assert main(deploy) == 0
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "another machine"))
    account.hosting.looks = 1_000_000
    words = [word if word != "ml.g4dn.xlarge" else "ml.g5.xlarge" for word in deploy]
    with started([*words, "--replace", "true"]) as process:
        wait_until(lambda: account.hosting.kinds["Endpoint"]["emotion"].status == "Updating", process)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=480)
    assert process.returncode == 130
    assert "Endpoint emotion is still being updated; run the same command to follow it." in output
    account.hosting.kinds["Endpoint"]["emotion"].looks = account.hosting.looks = 0
    [record] = read_records()
    assert record.expires is None
    assert main(["endpoints"]) == 0
    assert account.hosting.names()["Endpoint"] == ["emotion"]

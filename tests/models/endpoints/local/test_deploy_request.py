"""Differences between a deploy request and what a running endpoint serves."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.endpoints.local.deploy_request import difference, record_of
from models.endpoints.protocol import EndpointSpec


@pytest.fixture
def spec(tmp_path: Path) -> EndpointSpec:
    """A folder with weights, configuration and a checkpoint folder that is not served."""
    (tmp_path / "checkpoint-1").mkdir()
    for name in ("config.json", "model.safetensors", "checkpoint-1/model.safetensors"):
        (tmp_path / name).write_text("old")
    return EndpointSpec(name="a", model=tmp_path)


def kept(spec: EndpointSpec) -> Any:
    """Return the record of an endpoint as it is read from disk."""
    return json.loads(json.dumps(record_of(spec)))


def test_an_equal_request_has_no_difference(spec: EndpointSpec) -> None:
    before = kept(spec)
    assert difference(before, spec) is None
    assert difference(before, replace(spec, precision="auto", lifetime_seconds=5.0, replace=True)) is None
    (spec.model / "checkpoint-1" / "model.safetensors").write_text("newer")
    assert difference(before, spec) is None


def test_changed_files_are_named(spec: EndpointSpec) -> None:
    before = kept(spec)
    weights = spec.model / "model.safetensors"
    changes = weights.stat()
    weights.write_text("new")
    os.utime(weights, ns=(changes.st_atime_ns, changes.st_mtime_ns + 1))
    assert difference(before, spec) == f"serves an earlier state of {spec.model}: model.safetensors has changed since"
    (spec.model / "config.json").unlink()
    (spec.model / "tokenizer.json").write_text("{}")
    assert (
        difference(before, spec)
        == f"serves an earlier state of {spec.model}: config.json and 2 more have changed since"
    )


def test_different_options_are_reported(spec: EndpointSpec) -> None:
    served = kept(replace(spec, precision="bf16", max_length=128))
    assert difference(served, spec) == f"serves {spec.model} with precision bf16, not auto"
    longer = replace(spec, precision="bf16")
    assert difference(served, longer) == f"serves {spec.model} with max_length 128, not unset"


def test_a_different_model_is_reported(spec: EndpointSpec) -> None:
    of_run = replace(spec, run_id="0123")
    assert difference(kept(spec), of_run) == f"serves {spec.model}, not 0123"
    assert difference({}, of_run) == "serves an unknown model, not 0123"


def test_fetching_a_run_again_changes_nothing(spec: EndpointSpec) -> None:
    of_run = replace(spec, run_id="0123")
    before = kept(of_run)
    (spec.model / "model.safetensors").write_text("fetched anew")
    assert difference(before, of_run) is None
    assert difference(before, replace(of_run, precision="fp32")) == "serves 0123 with precision auto, not fp32"


def test_an_endpoint_of_an_older_version_is_kept(spec: EndpointSpec) -> None:
    assert difference({"identity": spec.identity}, replace(spec, precision="fp32")) is None


def test_another_host_or_token_is_reported(spec: EndpointSpec, tmp_path: Path) -> None:
    token = tmp_path.with_name("token")
    token.write_text("0123456789abcdef")
    protected = replace(spec, token_file=token)
    served = kept(protected)
    assert difference(served, protected) is None
    assert difference(served, spec) == f"serves {spec.model} with token_file {token}, not unset"
    assert difference(kept(spec), replace(spec, host="0.0.0.0")) == (
        f"serves {spec.model} with host 127.0.0.1, not 0.0.0.0"
    )
    os.utime(token, ns=(1, 1))
    assert difference(served, protected) == f"serves {spec.model} with an earlier token: {token} has changed since"


def test_an_endpoint_of_an_earlier_version_has_no_token(spec: EndpointSpec, tmp_path: Path) -> None:
    served = {name: value for name, value in kept(spec).items() if name in ("identity", "files", "precision")}
    assert difference(served, spec) is None
    token = tmp_path.with_name("token")
    token.write_text("0123456789abcdef")
    assert difference(served, replace(spec, token_file=token)) == (
        f"serves {spec.model} with token_file unset, not {token}"
    )

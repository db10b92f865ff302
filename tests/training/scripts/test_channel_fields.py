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


def test_a_channel_without_options_keeps_its_short_form(tmp_path: Path) -> None:
    experiment = load(file(tmp_path, "{uri: rows, mode: File}"), {})
    assert experiment.script is not None
    assert experiment.script.model_dump(mode="json")["channels"] == {"train": str(tmp_path / "rows")}
    written = load(file(tmp_path, FILE_SYSTEM, SAGEMAKER), {}).model_dump(mode="json")["script"]["channels"]["train"]
    assert (written["file_system"], written["access"]) == ("fs-0123abcd", "rw")


def test_a_file_system_has_no_version(tmp_path: Path) -> None:
    channels = script_inputs(load(file(tmp_path, FILE_SYSTEM, SAGEMAKER), {}), tmp_path / "home").channels
    assert channels.uris == {"train": "fsxlustre://fs-0123abcd/mnt/rows"}
    assert channels.notes == (
        "script.channels.train is a directory of a file system: the version of its files is not recorded.",
    )


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
        ("{uri: rows, file_system: fs-0123abcd}", "needs either uri or file_system"),
        ("{uri: rows, path: /x}", "with uri cannot have path, which is for a file_system"),
        ("{file_system: fs-0123abcd}", "needs its kind (FSxLustre or EFS) and a path"),
        (f"{FILE_SYSTEM[:-1]}, mode: FastFile}}", "with file_system cannot have mode, which is for data in S3"),
        ("{file_system: fs-1, kind: EFS, path: /x}", "script.channels.train.file_system"),
        ("{file_system: fs-0123abcd, kind: EFS, path: x}", "script.channels.train.path"),
        ("{uri: rows, mode: Stream}", "script.channels.train.mode must be one of 'File', 'FastFile', 'Pipe'"),
        ("{uri: rows, type: manifest}", "with type manifest needs an s3:// URI of the manifest, not"),
        ("{uri: s3://team-data/l, type: augmented-manifest}", "needs attributes with type augmented-manifest, and"),
        ("{uri: s3://team-data/l, attributes: [a]}", "needs attributes with type augmented-manifest, and only with it"),
        (
            "{uri: s3://team-data/l, type: augmented-manifest, attributes: [a]}",
            "with type augmented-manifest needs mode Pipe, not File",
        ),
        ("{urI: rows}", "urI"),
    ],
)
def test_a_wrong_channel_is_one_sentence(tmp_path: Path, channel: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(file(tmp_path, channel, SAGEMAKER), {})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("channel", "reason"),
    [
        (FILE_SYSTEM, "is in the file system 'fs-0123abcd', which is read only on SageMaker"),
        ("{uri: s3://team-data/rows/, mode: FastFile}", "'s3://team-data/rows/' is read only on SageMaker"),
        ("{uri: rows, mode: Pipe}", "has mode Pipe, which is read only on SageMaker"),
    ],
)
def test_what_only_sagemaker_has_is_refused_on_this_machine(tmp_path: Path, channel: str, reason: str) -> None:
    with pytest.raises(InputError, match=f"script.channels.train {reason}: set service to sagemaker, or"):
        load(file(tmp_path, channel), {})

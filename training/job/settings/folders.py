"""The container's folders, from the `SM_*` variables of SageMaker's script mode."""

from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

from reporting.errors import ArgumentError


@dataclass(frozen=True)
class Folders:
    """The folders of one job."""

    model: Path
    """Folder for the trained model, from which the service makes the model artifact."""
    output: Path
    """Folder for the file `failure`."""
    output_data: Path
    """Folder for `events.jsonl` and other output files."""
    train: Path
    """Channel with the training rows."""
    validation: Path
    """Channel with the validation rows."""
    pretrained: Optional[Path]
    """Channel with the initial model. None loads the model from the Hub."""
    checkpoints: Optional[Path]
    """Folder for checkpoints, which the service keeps when the job is interrupted. None if there is no such folder."""


def read_folders(environment: Mapping[str, str]) -> Folders:
    """Return the folders that the environment names. Raises `ArgumentError` for a missing variable."""
    return Folders(
        model=_folder(environment, "SM_MODEL_DIR"),
        output=_folder(environment, "SM_OUTPUT_DIR"),
        output_data=_folder(environment, "SM_OUTPUT_DATA_DIR"),
        train=_folder(environment, "SM_CHANNEL_TRAIN"),
        validation=_folder(environment, "SM_CHANNEL_VALIDATION"),
        pretrained=_optional(environment, "SM_CHANNEL_MODEL"),
        checkpoints=_optional(environment, "SM_CHECKPOINT_DIR") or _existing_checkpoints(environment),
    )


def _folder(environment: Mapping[str, str], variable: str) -> Path:
    if not environment.get(variable):
        raise ArgumentError(
            f"environment variable {variable} is not set: it must be the path of a folder (see SageMaker's SM_*)"
        )
    return Path(environment[variable])


def _optional(environment: Mapping[str, str], variable: str) -> Optional[Path]:
    return Path(environment[variable]) if environment.get(variable) else None


def _existing_checkpoints(environment: Mapping[str, str]) -> Optional[Path]:
    """Return the folder that SageMaker synchronises with S3, if it exists."""
    folder = Path(environment.get("SAGEMAKER_BASE_DIR") or "/opt/ml") / "checkpoints"
    return folder if folder.is_dir() else None

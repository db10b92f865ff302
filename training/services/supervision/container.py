"""Create a job's container folders, and pack the model that the job saves. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from state.folders import damage
from training.contract.failures import OTHER
from training.contract.service import Channel, Request
from training.services.supervision import toolkit
from training.services.supervision.disk import FULL_ERRORS, full_reason, names_full_disk
from training.services.supervision.toolkit import DataError, local_path, script_variables

ROOT = "/opt/ml"
"""Root of the folders in a container."""
FOLDERS = ("code", "model", "input/config", "input/data", "output/data", "checkpoints")

# Environment variables of this machine that a job inherits. As in a container, a job does not see any others, such as
# secrets.
INHERITED_NAMES = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CC", "CXX"),
        *("XDG_CACHE_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_ENDPOINT", "TRANSFORMERS_OFFLINE"),
        *("HF_HUB_DISABLE_XET", "HF_EVALUATE_OFFLINE"),
        "TORCH_HOME",
    )
)
INHERITED_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "TORCHINDUCTOR_", "TRITON_", "ONEDNN_", "DNNL_", "ATEN_CPU_", "MKL_")

SECRET_VARIABLES = "TRAINFARE_SECRET_VARIABLES"
"""Environment variable of a request that lists further variables, separated by commas. The job inherits these from the
process that starts it, so their values are never written to a request, a disk or a tracking server."""

PYTHON_VARIABLE = "TRAINFARE_PYTHON"
"""Environment variable of a request with the interpreter that runs the script. The default is the supervisor's own."""

# As in AWS's deep-learning containers: a printed line appears in the log immediately.
IMAGE_VARIABLES = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "UTF-8"}


def check_inputs(request: Request) -> None:
    """Raise DataError if the source or a channel differs from the digest that was recorded when it was made."""
    source = str(toolkit.decoded(request["HyperParameters"])["sagemaker_submit_directory"])
    channels = request.get("InputDataConfig", [])
    uris = {f"channel '{each['ChannelName']}':": each["DataSource"]["S3DataSource"]["S3Uri"] for each in channels}
    try:
        for name, uri in {"source": source, **uris}.items():
            if text := damage(local_path(uri)):
                raise DataError(f"{name} {text}. Run the same command again: it makes the files again")
    except OSError as error:
        raise DataError(f"{error.strerror}: '{error.filename}'", OTHER) from error


def relocate_paths(request: Request, base: Path) -> Request:
    """Return the request with `/opt/ml` replaced by `base` in all hyperparameters and variables that are such paths.

    Published workloads pass paths such as `/opt/ml/model`, which exist only in a container. Of the toolkit's own
    hyperparameters, only the settings of our entry point, a mapping, hold words for the script.
    """
    hyperparameters = {
        name: text if is_toolkits or relocated == value else json.dumps(relocated)
        for name, text in request["HyperParameters"].items()
        for value in [toolkit.decoded({name: text})[name]]
        for is_toolkits in [name.startswith("sagemaker_") and not isinstance(value, dict)]
        for relocated in [_relocated(value, base)]
    }
    environment = {name: _relocated(value, base) for name, value in request.get("Environment", {}).items()}
    return {**request, "HyperParameters": hyperparameters, "Environment": environment}


def _relocated(value: Any, base: Path) -> Any:
    """Return a value with `/opt/ml` replaced by `base`, if it is a container path or holds some."""
    if isinstance(value, str) and f"{value}/".startswith(f"{ROOT}/"):
        return str(base) + value.removeprefix(ROOT)
    if isinstance(value, list):
        return [_relocated(each, base) for each in value]
    if isinstance(value, dict):
        return {key: _relocated(each, base) for key, each in value.items()}
    return value


def create_folders(base: Path, request: Request) -> None:
    """Create the container's folders under `base`, with the source, links to the data, and the configuration.

    Raises DataError.
    """
    try:
        for folder in FOLDERS:
            (base / folder).mkdir(parents=True, exist_ok=True)
        files = {
            "hyperparameters": request["HyperParameters"],
            "inputdataconfig": toolkit.input_data_config(request),
            "resourceconfig": toolkit.resource_config(request["ResourceConfig"]["InstanceType"]),
        }
        for name, content in files.items():
            (base / "input" / "config" / f"{name}.json").write_text(json.dumps(content))
        _copy_source(toolkit.decoded(request["HyperParameters"]), base / "code")
        if uri := request.get("CheckpointConfig", {}).get("S3Uri"):
            target = local_path(uri)
            target.mkdir(parents=True, exist_ok=True)
            (base / "checkpoints").rmdir()
            (base / "checkpoints").symlink_to(target, target_is_directory=True)
        for channel in request.get("InputDataConfig", []):
            _link_channel(channel, base / "input" / "data")
    except OSError as error:
        raise _folder_error(error, base) from error


def _folder_error(error: OSError, path: Path, needed_bytes: int | None = None) -> DataError:
    """Return the error for a user; `path` is on the disk that was written to."""
    if error.errno in FULL_ERRORS or names_full_disk([str(error)]):  # shutil joins several errors without a number
        return DataError(full_reason(path, needed_bytes), "DiskFull")
    return DataError(f"{error.strerror}: '{error.filename}'" if error.filename else str(error), OTHER)


def _copy_source(hyperparameters: Mapping[str, Any], code: Path) -> None:
    source = local_path(str(hyperparameters["sagemaker_submit_directory"]))
    program = str(hyperparameters["sagemaker_program"])
    if not source.is_dir():
        raise DataError(f"source '{source}' is not a folder")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, code, dirs_exist_ok=True, ignore=ignored, ignore_dangling_symlinks=True)
    is_package = (code / "setup.py").exists()
    is_module = is_package and not program.endswith((".py", ".sh"))
    if not is_module and not (code / program).is_file():
        raise DataError(f"source '{source}' has no '{program}'")
    if toolkit.is_executable(program, is_package=is_package):
        (code / program).chmod(0o755)


def _link_channel(channel: Channel, data: Path) -> None:
    """Link a channel into the data folder. As on SageMaker, a single file becomes a folder that contains it."""
    name = channel["ChannelName"]
    source = local_path(channel["DataSource"]["S3DataSource"]["S3Uri"])
    if source.is_dir():
        (data / name).symlink_to(source, target_is_directory=True)
    elif source.exists():
        (data / name).mkdir()
        (data / name / source.name).symlink_to(source)
    else:
        raise DataError(f"channel '{name}': '{source}' does not exist")


def inherited(request: Request) -> dict[str, str]:
    """Return the variables of this process that the job inherits, with its secrets."""
    secrets = request.get("Environment", {}).get(SECRET_VARIABLES, "").split(",")
    return {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED_NAMES or name.startswith(INHERITED_PREFIXES) or name in secrets
    }


def environment(
    request: Request, base: Path, inherited: Mapping[str, str], *, cores: int, gpus: tuple[str, ...], processes: int
) -> dict[str, str]:
    """Return the environment variables of the job's processes.

    Precedence is as in a container: the toolkit's variables override the request's, which override the image's.
    """
    threads = {"OMP_NUM_THREADS": str(max(1, cores // processes))} if cores else {}
    container = dict(inherited) | IMAGE_VARIABLES | threads | request.get("Environment", {})
    # As in an image, `python` and the commands of its packages are those that the script is run with.
    folders = [os.path.dirname(python(request)), *filter(None, [container.get("PATH")])]  # noqa: PTH120 - keeps links
    container["PATH"] = os.pathsep.join(folders)
    visible = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
    cpus = cores or len(os.sched_getaffinity(0))
    variables: dict[str, str] = container | script_variables(request, base, cpus=cpus, gpus=len(gpus)) | visible
    return variables


def python(request: Request) -> str:
    return str(request.get("Environment", {}).get(PYTHON_VARIABLE, sys.executable))


def artifact_path(request: Request) -> Path:
    """Return the path of the job's model artifact: `<output>/<job>/output/model.tar.gz`, as on SageMaker."""
    folder = local_path(request["OutputDataConfig"]["S3OutputPath"]) / str(request["TrainingJobName"])
    return folder / "output" / "model.tar.gz"


def upload_model(base: Path, request: Request) -> Path | None:
    """Pack the model folder, delete it, and return the archive's path, or None if the job saved no model.

    The folder may be a link, such as to the best checkpoint. Raises DataError if the model cannot be packed.
    """
    model = base / "model"
    artifact = artifact_path(request)
    unfinished = artifact.with_name(f".{artifact.name}.new")
    try:
        saved = sorted(model.iterdir()) if model.is_dir() else []
        if not saved:
            return None
        artifact.parent.mkdir(parents=True, exist_ok=True)
        # Weights hardly compress, and the time to compress them would be billed.
        with tarfile.open(unfinished, "w:gz", compresslevel=0) as tar:
            for path in saved:
                tar.add(path, arcname=path.name)
        unfinished.replace(artifact)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        size_bytes = sum(path.stat().st_size for path in model.rglob("*") if path.is_file())
        raise _folder_error(error, artifact.parent, size_bytes) from error
    shutil.rmtree(model, ignore_errors=True)  # does not follow a link
    return artifact

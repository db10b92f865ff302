"""Specification of one job, independent of any service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from state.digests import digest
from training.contract.frozen import Name
from training.contract.price import Resources, instances_of

Launcher = Literal["torchrun", "pytorchddp", "smddp", "smp", "xla"]
"""Program that starts a job's processes: PyTorch's torchrun, the toolkit's runner for DDP, and for scripts SageMaker's
libraries for data and model parallelism, or PyTorch/XLA's spawner."""
Compiler = Literal["none", "inductor", "trcomp", "trcomp-off"]
"""torch.compile, and for scripts SageMaker Training Compiler, or its image with the compiler off."""
FOR_SCRIPTS = ("trcomp", "trcomp-off", "smddp", "smp", "xla")
"""Compilers and launchers whose images are older than what our own tasks need."""
Scalar = str | int | float | bool
InputMode = Literal["File", "FastFile", "Pipe"]
DataType = Literal["S3Prefix", "ManifestFile", "AugmentedManifestFile"]
Distribution = Literal["FullyReplicated", "ShardedByS3Key"]
FILE_SYSTEMS = {"fsxlustre": "FSxLustre", "efs": "EFS"}
"""Scheme of a channel's URI to the file system's type: `fsxlustre://fs-0123abcd/mount/rows`."""
NOT_CHOSEN = "local"
"""Instance type, image or region that nobody chose, as it is stored in plans. The service of the job decides it."""
DAY = 86_400
LONGEST_SECONDS = 28 * DAY
"""Longest run of a training job on SageMaker."""
JOB_NAME_PATTERN = r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$"
MAX_NAME_CHARACTERS = 63
"""Longest name of a job."""
ENTRY_FILE = "trainfare_entry.py"
"""Name of our entry point in the source of a job. It starts scripts under their meter, or with arguments that
SageMaker's toolkit alone cannot pass."""
METERING_FOLDER = "trainfare_metering"
"""Name of the folder with the meter in the source of a job, beside the entry point."""
SCRIPT_ARTIFACTS = "mlflow-artifacts.tar.gz"
"""File in the output of a job with the artifacts that its script logged to MLflow."""
ENTRY_KEY = "sagemaker_trainfare_entry"
"""Hyperparameter that holds the settings. The toolkit passes no name that starts with `sagemaker_` to the script."""
Style = Literal["space", "equals", "assign"]
"""Named arguments as `--name value`, `--name=value` or `name=value`."""
_SHELL_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def short_name(name: str, suffix: str = "") -> str:
    """Return a job's name with a suffix. If both are too long, the end of the name becomes a digest of it."""
    if len(name) + len(suffix) <= MAX_NAME_CHARACTERS:
        return name + suffix
    suffix = f"-{digest(name, 8)}{suffix}"
    return name[: MAX_NAME_CHARACTERS - len(suffix)].rstrip("-") + suffix


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MetricDefinition(_Frozen):
    """Metric that the service reads from the log."""

    name: str
    """Name under which the service reports the last value."""
    regex: str
    """Regular expression with one group, matched against each log line."""


class UnchangedOptions(_Frozen):
    """Options of a channel on SageMaker that an experiment and CreateTrainingJob write alike."""

    mode: InputMode = "File"
    """`File` copies the data before the start, `FastFile` reads each file when it is opened, `Pipe` streams the data
    through named pipes."""
    attributes: Annotated[tuple[Name, ...], Field(strict=False, max_length=16)] = ()
    """Attributes of an augmented manifest to stream, in this order."""
    access: Literal["ro", "rw"] = "ro"
    """Access to a file system: read-only or read and write."""
    content_type: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """MIME type of the data."""
    compression: Literal["Gzip"] | None = None
    """Compression of the objects, which mode Pipe undoes."""
    record_wrapper: Literal["RecordIO"] | None = None
    """Format in which mode Pipe wraps each object."""
    shuffle_seed: int | None = None
    """Seed that shuffles objects, names of a manifest or lines of an augmented one; for Pipe, in every epoch. None
    keeps their order."""
    instance_groups: Annotated[tuple[Name, ...], Field(strict=False, max_length=5)] = ()
    """Instance groups of `aws.request` that get the channel; empty for all."""


class ChannelOptions(UnchangedOptions):
    """Options of a channel on SageMaker. Values as in CreateTrainingJob."""

    data_type: DataType = "S3Prefix"
    """Meaning of an S3 URI."""
    distribution: Distribution = "FullyReplicated"
    """Objects for each instance: all, or a share of them."""


class ScriptEntry(_Frozen):
    """Settings of our entry point for one script. The toolkit passes them on unchanged.

    `training/scripts/trainfare_entry.py` reads them in the job.
    """

    style: Style = "space"
    """Style of named arguments."""
    flags: bool = False
    """True if the names of true values are passed alone, and false values not at all."""
    words: tuple[str, ...] = ()
    """Arguments before all named ones."""
    secrets: Mapping[str, str] = {}
    """Environment variable to the secret of AWS Secrets Manager that holds its value, by name or ARN."""
    samples_per_step: int | None = None
    """Samples of one step, where the meter cannot count them."""
    values: Mapping[str, JsonValue] = {}
    """Hyperparameters that the toolkit's shell would change. These settings carry them instead of the request's own
    hyperparameters."""

    files: Mapping[str, JsonValue] = {}
    """Path in the script's folder to the content of a file that is written there before the script starts."""

    def carrying(self, hyperparameters: Mapping[str, JsonValue], files: Mapping[str, JsonValue]) -> ScriptEntry:
        """Return the settings with the values of a job: other repeats may have others, such as a seed."""
        return self.model_copy(update={"values": {name: hyperparameters[name] for name in self.values}, "files": files})

    def settings(self, program: str) -> dict[str, Any]:
        """Return the value of the hyperparameter `ENTRY_KEY` for this program, without settings that have no effect."""
        return {"program": program, **self.model_dump(mode="json", exclude_defaults=True)}


Names = Annotated[tuple[Name, ...], Field(strict=False)]
Minutes = Annotated[tuple[Annotated[float, Field(ge=0.0, le=1_440.0)], ...], Field(strict=False, max_length=10)]


class Instances(_Frozen):
    """Instances of a job: fields of an experiment's `machine` that the job takes unchanged."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    instance_type: Name = NOT_CHOSEN
    """Instance type, such as `ml.p3.2xlarge`. `local` is this machine."""
    fallback_instance_types: Names = ()
    """SageMaker: at most four instance types, each with as many GPUs, to try when `instance_type` is not available."""
    instance_count: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Number of instances."""
    devices: Annotated[int, Field(ge=1, le=64)] = 1
    """Devices per instance: GPUs, or Neuron cores of Trainium. Each one gets a process."""
    launcher: Launcher | None = None
    """Launcher of several processes. None means `xla` with the Training Compiler and `torchrun` otherwise."""
    mpi_options: str = ""
    """SageMaker: options of `mpirun`, for `smddp` and `smp`."""
    model_parallel: Annotated[Mapping[str, Scalar], Field(strict=False)] = {}
    """SageMaker: parameters of its model-parallel library, for `smp`."""
    volume_gib: Annotated[int, Field(ge=1, le=16_384)] = 30
    """Disk size per instance, in GiB."""
    max_run_seconds: Annotated[int, Field(ge=1, le=LONGEST_SECONDS)] = 86_400
    """Seconds after which the job is stopped, at most 28 days."""
    spot: bool = False
    """SageMaker: run on spot capacity, which can be interrupted. Requires checkpoints to resume from."""
    max_wait_seconds: Annotated[int, Field(ge=1, le=LONGEST_SECONDS)] | None = None
    """Spot: seconds until the job must have ended, waits included. None means a day more than `max_run_seconds`."""
    capacity_retry_minutes: Minutes = (5.0, 10.0, 20.0)
    """SageMaker: minutes before each retry of a job without capacity."""
    keep_alive_seconds: Annotated[int, Field(ge=0, le=21_600)] = 0
    """SageMaker: seconds for which the instances stay warm, and billed, for the next job."""


class JobSpec(Instances):
    """Complete specification of one job: everything that `training.contract.request` needs.

    Planning passes resolved values.
    """

    max_run_seconds: int = Field(default=DAY, ge=1)
    """Seconds after which the service stops the job. The job then counts as failed, with class TimeLimit."""
    max_wait_seconds: int | None = Field(default=None, ge=1)
    """Spot: see `longest_wait_seconds`. Jobs of others, to which trainfare attaches, may have longer limits."""

    name: str = Field(pattern=JOB_NAME_PATTERN)
    """Job name, unique within a service: 1 to 63 letters, digits and inner hyphens (CreateTrainingJob's rule)."""
    compiler: Compiler = "none"
    """Compiler. `trcomp` and `trcomp-off` exist only in images of SageMaker."""
    hyperparameters: Mapping[str, JsonValue]
    """Arguments of the program. The request adds the `sagemaker_*` keys."""
    channels: Mapping[str, str]
    """Channel name to URI of its folder: `file://` locally, `s3://` or one of `FILE_SYSTEMS` on SageMaker."""
    channel_options: Mapping[str, ChannelOptions] = {}
    """Options by channel name. Channels without options are prefixes in S3, copied to every instance."""
    source_uri: str
    """Source of the job: a folder (`file://`) locally, a `sourcedir.tar.gz` in S3 on SageMaker."""
    requirements: tuple[str, ...] = ()
    """Packages with their versions that our own job needs and SageMaker's images lack. They travel as the file
    `requirements.txt` of the source, which the toolkit installs."""
    program: str = "train.py"
    """Entry point within the source: a file, or `-m` and the name of a module, which requires `entry`."""
    entry: ScriptEntry | None = None
    """Settings of our entry point, which then starts the program. None lets the toolkit start the program itself."""
    output_uri: str
    """Folder or S3 prefix for the artifacts, which go into a folder named after the job."""
    checkpoint_uri: str | None = None
    """Folder or S3 prefix that is synchronised with the container's checkpoint folder. None disables checkpoints."""
    image: str = NOT_CHOSEN
    """Container image URI. If it is not chosen, a service with containers takes AWS's image by `image_versions`."""
    image_versions: Mapping[str, str] = {}
    """SageMaker: versions, such as `{"transformers": "4.49"}`, that the chosen image must have. Empty means the newest
    that run on the instance types."""
    is_script: bool = False
    """True for a user's own script; false for our own job, which has requirements of the image."""
    entry_point: tuple[str, ...] = ()
    """Command of the container, in place of the image's. Empty keeps the image's own."""
    entry_arguments: tuple[str, ...] = ()
    """Arguments of `entry_point`, in place of `train`."""
    role_arn: str = "arn:aws:iam::000000000000:role/local"
    """Role that the job assumes; the local service ignores it."""
    region: str = NOT_CHOSEN
    """AWS region; the local service ignores it."""
    compiler_debug: bool = False
    """Write debugging information of the Training Compiler to the job's output. Slows training down."""
    subnets: tuple[str, ...] = ()
    """Subnets of the user's VPC for the job. Requires `security_groups`."""
    security_groups: tuple[str, ...] = ()
    """Security groups of the job's network interfaces."""
    isolate_network: bool = False
    """Block outbound network calls of the container. The source is then a channel named `code`."""
    network_uses: tuple[str, ...] = ()
    """Uses of a network by the job, each as a sentence without a full stop that names the field, such as `model
    'gpt2' is downloaded from the Hub`. The request does not contain it."""
    encrypt_traffic: bool = False
    """Encrypt the traffic between the instances of a job. Slows distributed training down."""
    volume_key: str | None = None
    """KMS key that encrypts the disks of the instances."""
    output_key: str | None = None
    """KMS key that encrypts the artifacts in S3."""
    environment: Mapping[str, str] = {}
    """Environment variables of the job."""
    metric_definitions: tuple[MetricDefinition, ...] = ()
    """Metrics that the service reads from the log."""
    tags: Mapping[str, str] = {}
    """Tags of the job at the service."""
    request: Mapping[str, JsonValue] = {}
    """Members laid over the request last, for what no other field sets, such as a retry strategy."""

    @property
    def resources(self) -> Resources:
        """Instances of the job, as in its request."""
        own = {"InstanceType": self.instance_type, "InstanceCount": self.instance_count}
        return cast(Resources, {**own, **cast(dict[str, Any], self.request.get("ResourceConfig", {}))})

    @property
    def billed_instances(self) -> int:
        """Number of instances, over all instance groups."""
        return sum(instances_of(self.resources).values())

    @property
    def longest_wait_seconds(self) -> int | None:
        """Seconds until a spot job must have ended, including the waits for capacity; None for other jobs.

        By default a job may wait for a day in addition to its run. Without such a margin, a job that waits at all, or
        is interrupted, could not train for the time that it needs. Waiting costs nothing.
        """
        if not self.spot:
            return None
        return self.max_wait_seconds or max(self.max_run_seconds, min(self.max_run_seconds + DAY, LONGEST_SECONDS))


def is_shell_safe(word: str) -> bool:
    """Return whether a shell passes a word on as it is.

    The toolkit joins a command's words with blanks and gives them to a shell, without quotes (sagemaker-training 5.1.1,
    `process.py`; aws/sagemaker-training-toolkit#128, open). Blanks split a word there, and `$`, `;` and others act.
    """
    return _SHELL_SAFE.fullmatch(word) is not None

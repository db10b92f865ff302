"""Sections of an experiment: a user's own training script, the machine of its jobs, and the AWS account."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, ValidationInfo, field_validator, model_validator

from judging.spot import DEFAULT_PER_HOUR
from training.contract.errors import InputError
from training.contract.frozen import Frozen, Name
from training.contract.job_spec import Instances, MetricDefinition, Names, Style
from training.contract.plain_text import is_likely_secret
from training.contract.price import instances_of
from training.contract.request import NAME_PATTERNS, SET_BY_FIELDS, check_metric
from training.contract.retry import CREDENTIALS_WAIT_MINUTES
from training.job.tasks import METRICS_BY_NAME, OWN_METRICS
from training.scripts.channels import ScriptChannels, check_channels

RESERVED_PREFIXES = ("SM_", "SAGEMAKER_", "TRAINFARE_")
"""Prefixes of the variables that a service sets itself."""
VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"


def _text(value: Any) -> Any:
    """Return a variable's value as text. YAML reads `1` and `true` as a number and a truth value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _named(value: Any) -> Any:
    """Return a list of variables as a mapping from each variable to no secret's name."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",")]
    return dict.fromkeys(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else value


Hyperparameters = dict[Name, JsonValue]
VariableName = Annotated[str, Field(pattern=VARIABLE_PATTERN)]
Variables = dict[VariableName, Annotated[str, BeforeValidator(_text)]]
SecretName = Annotated[str, Field(pattern=r"^[A-Za-z0-9/_+=.@:-]{1,512}$")]
Secrets = Annotated[dict[VariableName, SecretName | None], BeforeValidator(_named)]
Requirements = Literal["list", "install"]


class ScriptArguments(Frozen):
    """Form of a script's named arguments."""

    style: Style = "space"
    """Named arguments as `--name value`, as `--name=value` (`equals`), or as `name=value` (`assign`)."""
    booleans: Literal["auto", "value", "flag"] = "auto"
    """True and false as `--name True` (`value`), or as `--name` and nothing (`flag`). `auto` is `value`, refused if the
    program seems to declare flags."""

    @model_validator(mode="before")
    @classmethod
    def _from_style(cls, value: Any) -> Any:
        return {"style": value} if isinstance(value, str) else value


PROGRESS = ("step", "epoch", "samples")
"""Names that give the position in the training."""


def _check_expression(value: Any) -> Any:
    try:
        check_metric(MetricDefinition(name="metric", regex=str(value)))
    except InputError as error:
        raise ValueError(str(error).removeprefix("Metric 'metric': ").rstrip(".")) from error
    return str(value)


Expression = Annotated[str, BeforeValidator(_check_expression)]


class ScriptMetric(Frozen):
    """One metric of a script."""

    pattern: Expression | None = None
    """Regular expression with one group that matches the number. None for a metric that the log shows by itself."""
    unit: Literal["fraction", "percent", "number"] | None = None
    """Unit of the values: `fraction` (0 to 1), `percent` (0 to 100) or `number` (any other). None means that the unit
    is taken from the values where they leave no doubt."""
    better: Literal["higher", "lower"] | None = None
    """Better direction of the values. None means the known direction of a metric of tasks, such as
    eval_accuracy."""


def _from_text(value: Any) -> Any:
    """Return the short form, a regular expression alone, as a metric."""
    return value if isinstance(value, dict | ScriptMetric) else {"pattern": value}


MetricName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.:-]{0,249}$")]
"""Name without a slash: names with a slash are reserved for our own metrics."""
ScriptMetrics = dict[MetricName, Annotated[ScriptMetric, BeforeValidator(_from_text)]]


class Script(Frozen):
    """Training script that runs unchanged instead of a task."""

    source: Name
    """Folder or git URL that contains the script."""
    revision: Name | None = None
    """Branch, tag or commit of a git URL. None means the default branch."""
    directory: Name | None = None
    """Folder within the source to copy into the job. None copies the whole source."""
    entry_point: Name = "train.py"
    """Program to run in that folder, or a module (`-m package.train`). Words after it come before all hyperparameters:
    `train.py config.yaml`."""
    hyperparameters: Hyperparameters = Field(default={})
    """Named arguments: texts, numbers, true or false, lists and mappings. `$batch_size` inserts that field of
    the experiment; null leaves the argument out."""
    files: dict[Name, JsonValue] = Field(default={})
    """Files for the script by their paths in its folder: mappings and lists, written by the suffix .yaml, .yml, .json
    or .toml, and texts. `$batch_size` inserts that field of the experiment."""
    arguments: ScriptArguments = ScriptArguments()
    """Form of the named arguments. A text sets only the `style`."""
    environment: Variables = Field(default={})
    """Environment variables of the script, on both services."""
    secrets: Secrets = Field(default={})
    """Environment variables with secrets: a list of names, or a mapping from each name to a secret of AWS Secrets
    Manager. On this machine, they are variables of the command."""
    requirements: Requirements = "list"
    """`list` the packages of the script's `requirements.txt` that are missing on this machine, or `install` them into
    an environment of their own."""
    metrics: ScriptMetrics = Field(default={})
    """Metrics by name: regular expressions with one group, or mappings of `pattern`, `unit` (`fraction`, `percent` or
    `number`) and `better` (`higher` or `lower`). Numbers that a script logs to MLflow, TensorBoard or
    with Trainer need none: see docs/scripts.md."""
    meter: bool = True
    """Count steps, samples, tokens and memory in the script's processes, and record what it logs to MLflow or
    TensorBoard: see docs/scripts.md."""
    samples_per_step: Annotated[int, Field(ge=1)] | Literal["$global_batch_size"] | None = None
    """Samples of one step, over all devices, for a script whose samples the meter cannot count. `$global_batch_size`
    is that of the experiment."""
    channels: ScriptChannels = Field(default={})
    """File or folder for each `SM_CHANNEL_...` variable. `package:NAME` is a packaged model, `builtin:docstrings` the
    built-in data. For data in S3 and mappings, see docs/aws.md."""

    @model_validator(mode="after")
    def _check(self) -> Script:
        check_entry_point(self.entry_point)
        check_values(self)
        check_files(self.files)
        check_metrics(self.metrics)
        check_channels(self.channels)
        return self

    @property
    def program(self) -> str:
        """The program of the entry point: a file, or `-m` and the name of a module."""
        words = shlex.split(self.entry_point)
        return " ".join(words[: 2 if words[0] == "-m" else 1])

    @property
    def words(self) -> tuple[str, ...]:
        """The words that the entry point passes to its program."""
        words = shlex.split(self.entry_point)
        return tuple(words[2 if words[0] == "-m" else 1 :])

    @property
    def patterns(self) -> dict[str, str]:
        """The regular expressions by metric name."""
        return {name: metric.pattern for name, metric in self.metrics.items() if metric.pattern is not None}


def declared_scales(metrics: Mapping[str, ScriptMetric]) -> dict[str, dict[str, str]]:
    """Return the declared unit and direction of each metric that has either, in the order of the file."""
    declared = {
        name: metric.model_dump(include={"unit", "better"}, exclude_none=True) for name, metric in metrics.items()
    }
    return {name: each for name, each in declared.items() if each}


def check_entry_point(entry_point: str) -> None:
    """Raise ValueError for words that no shell could split, that are likely to be secrets, or that name a field."""
    try:
        words = shlex.split(entry_point)
    except ValueError as error:
        raise ValueError(f"script.entry_point {entry_point[:80]!r} has an open quote: close it") from error
    if not words:
        raise ValueError("script.entry_point must name a program, such as train.py")
    options = [
        (name.lstrip("-"), value or after)
        for (name, _, value), after in zip((word.partition("=") for word in words), [*words[1:], ""], strict=True)
    ]
    if any(is_likely_secret(name, value) for name, value in [*options, *(("", word) for word in words)]):
        raise ValueError(_secret("script.entry_point"))
    if any(word.startswith("$") for _, word in options):
        raise ValueError(
            f"script.entry_point {entry_point[:80]!r} cannot insert fields: pass $NAME through script.hyperparameters"
        )


def check_values(script: Script) -> None:
    """Raise ValueError for names that no service accepts, values that are not plain, and likely secrets.

    No message contains a likely secret.
    """
    for name, value in script.hyperparameters.items():
        if not re.fullmatch(NAME_PATTERNS["hyperparameters"], name):
            raise ValueError(
                f"script.hyperparameters: the name {name[:60]!r} must not contain blanks, line ends or '='"
            )
        parts = value if isinstance(value, list) else [*value.values()] if isinstance(value, dict) else ()
        if any(isinstance(part, dict | list) or part is None for part in parts):
            raise ValueError(
                f"script.hyperparameters.{name[:60]} has a list, a mapping or null within its value: write it as "
                "the text that the script reads, such as JSON"
            )
        if is_likely_secret(name, value):
            raise ValueError(_secret(f"script.hyperparameters.{name[:60]}"))
    for name, text in script.environment.items():
        if is_likely_secret(name, text):
            raise ValueError(_secret(f"script.environment.{name[:60]}"))
        if name in script.secrets:
            raise ValueError(f"script.secrets.{name} is also in script.environment: keep one of them")
    for field, names in (("script.environment", script.environment), ("script.secrets", script.secrets)):
        for name in names:
            if name.upper().startswith(RESERVED_PREFIXES):
                raise ValueError(f"{field}.{name} uses a reserved prefix: {', '.join(RESERVED_PREFIXES)}")


def check_files(files: Mapping[str, JsonValue]) -> None:
    """Raise ValueError for a file in a wrong place or without a format, and for a likely secret."""
    for path, content in files.items():
        field = f"script.files.{path[:60]}"
        if str(PurePosixPath(path)) != path or {"/", ".."} & {*PurePosixPath(path).parts}:
            raise ValueError(f"{field} must be a path within the script's folder, such as conf/train.yaml")
        if not isinstance(content, str) and not path.endswith((".yaml", ".yml", ".json", ".toml")):
            raise ValueError(f"{field} must be a text, or end in .yaml, .yml, .json or .toml")
        if is_likely_secret("", content):
            raise ValueError(_secret(field))


def _secret(field: str) -> str:
    return (
        f"{field} looks like a secret, which would be written to the request, the log and MLflow: remove it, let the "
        "script read an environment variable, and list that in script.secrets (on SageMaker with the name of a secret "
        "in AWS Secrets Manager, {HF_TOKEN: team/hub-token})"
    )


def check_metrics(metrics: Mapping[str, ScriptMetric]) -> None:
    """Raise ValueError for a metric without content, and for a unit or a direction that cannot be used."""
    for name, metric in metrics.items():
        if metric.pattern is None and metric.unit is None and metric.better is None:
            raise ValueError(f"script.metrics.{name} is empty: it needs a pattern, or a unit and a direction")
        if name in PROGRESS and (metric.unit or metric.better or not metric.pattern):
            raise ValueError(f"script.metrics.{name} gives the position in the training: it takes only a pattern")
        is_known = name in METRICS_BY_NAME and METRICS_BY_NAME[name] not in OWN_METRICS
        direction = METRICS_BY_NAME[name].direction if is_known else ""
        known = {"min": "lower", "max": "higher"}.get(direction)
        if known and metric.better and metric.better != known:
            raise ValueError(
                f"script.metrics.{name}: better is '{metric.better}', but {known} values of {name} are better"
            )
        if metric.unit and not metric.better and not known:
            raise ValueError(
                f"script.metrics.{name} has the unit '{metric.unit}' but no direction: add better: higher or "
                "better: lower"
            )


def _version(value: object, info: ValidationInfo) -> object:
    """Return a version as text. YAML reads 2.10 as the number 2.1, so a number that ends in .1 is ambiguous."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if str(value).endswith(".1"):
        raise ValueError(
            f"machine.image.{info.field_name} is {value}, which may be version {value} or {value}0: write the version "
            "in quotes"
        )
    return str(value)


Version = Annotated[str, BeforeValidator(_version), Field(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){0,2}$")]


class Image(Frozen):
    """Container image: its URI, or versions of AWS's image."""

    uri: Name | None = None
    """URI of the image. It excludes the versions."""
    transformers: Version | None = None
    """Version of Transformers: `4.49` or `4.49.0`."""
    pytorch: Version | None = None
    """Version of PyTorch: `2.5` or `2.5.1`. Write `"2.10"` in quotes."""

    @model_validator(mode="before")
    @classmethod
    def _from_uri(cls, value: Any) -> Any:
        return {"uri": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> Image:
        if self.uri and self.versions():
            raise ValueError("machine.image has a URI and versions; the URI states the versions, so leave them out")
        return self

    def versions(self) -> dict[str, str]:
        """Return the versions that are set."""
        values = {"transformers": self.transformers, "pytorch": self.pytorch}
        return {name: value for name, value in values.items() if value is not None}


class Machine(Frozen, Instances):
    """Instances and resources of a job."""

    cores: Annotated[int, Field(ge=1, le=4_096)] | None = None
    """CPU cores of the job. None means all cores of this machine; on Slurm, of each node, Slurm's default."""
    memory_gib: Annotated[float, Field(gt=0.0, le=1e6)] | None = None
    """Memory limit of the job, in GiB; on Slurm, of each node. None sets no limit; on Slurm, it is Slurm's default."""
    interruptions_per_hour: Annotated[float, Field(ge=0.0, le=3_600.0)] = DEFAULT_PER_HOUR
    """SageMaker: interruptions of an instance on spot capacity, for the expected cost. The default is 20 % per month;
    5 % is 0.00007. AWS's Spot Instance Advisor states the rates."""
    spot_discount_percent: Annotated[float, Field(ge=0.0, lt=100.0)] | None = None
    """SageMaker: discount of spot capacity, for the expected cost. None takes the median of the experiment's earlier
    spot jobs."""
    image: Image | None = None
    """SageMaker: container image. None takes AWS's newest one that can run the job on the instance type."""


S3Prefix = Annotated[str, Field(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()-]+)*/?$")]
"""Bucket, or a prefix in a bucket, with the characters that AWS calls safe in keys."""


class ServiceSection(Frozen):
    """Fields of one service."""

    def given(self) -> dict[str, Any]:
        """Return the fields that were set explicitly."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class Aws(ServiceSection):
    """AWS account, network and keys. The configuration file of SageMaker's SDK supplies what is not set."""

    region: Name | None = None
    """Region. None means the region of the environment."""
    profile: Name | None = None
    """Profile with the credentials. None means AWS_PROFILE or the default profile."""
    credentials_wait_minutes: Annotated[float, Field(ge=0.0, le=10_080.0)] = CREDENTIALS_WAIT_MINUTES
    """Minutes for which a command that follows jobs waits for new credentials when its own have expired."""
    job_prefix: Annotated[str, Field(pattern=r"^[a-z0-9](-?[a-z0-9])*$", max_length=40)] | None = None
    """Beginning of the names of all jobs: at most 40 lower-case letters, digits and hyphens."""
    role: Name | None = None
    """Role that the jobs assume, by name or ARN. None means the role of this process, inside SageMaker."""
    bucket: Name | None = None
    """Bucket for data, sources and artifacts. None means the bucket of the SDK, `sagemaker-<region>-<account>`."""
    output_uri: S3Prefix | None = None
    """S3 prefix for the artifacts of jobs. None means `trainfare/output` in the bucket."""
    checkpoint_uri: S3Prefix | None = None
    """S3 prefix for checkpoints, in a folder for each job. None means `trainfare/checkpoints` in the bucket."""
    exact_checkpoint_uri: bool = False
    """The job of `train` keeps its checkpoints in `checkpoint_uri` itself, and continues from those in it."""
    source_uri: S3Prefix | None = None
    """S3 prefix for the sources of jobs. None means `trainfare/source` in the bucket."""
    subnets: Names = ()
    """Subnets of your VPC for the jobs. Requires `security_groups`."""
    security_groups: Names = ()
    """Security groups of the jobs. Requires `subnets`."""
    isolate_network: bool = False
    """Block outbound network calls of the container, and refuse what needs a network."""
    encrypt_traffic: bool = False
    """Encrypt the traffic between the instances of a job."""
    volume_key: Name | None = None
    """KMS key that encrypts the disks of the instances, except built-in disks."""
    output_key: Name | None = None
    """KMS key that encrypts what is written to S3."""
    tags: Annotated[Mapping[str, str], Field(strict=False)] = {}
    """AWS tags of the jobs."""
    cost_tags: bool = True
    """Also tag jobs with their experiment, group and arm (`trainfare:experiment` ...), for AWS's cost reports."""
    request: Annotated[Mapping[str, Any], Field(strict=False)] = {}
    """Fields of CreateTrainingJob that no other field sets, such as `{RetryStrategy: {MaximumRetryAttempts: 2}}`. null
    removes a key."""
    prices: Name | None = None
    """JSON file with prices. None reads the AWS price list."""

    @field_validator("request")
    @classmethod
    def _check_request(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        for name, each in value.items():
            members = each if isinstance(each, Mapping) else ()
            for path in (name, *(f"{name}.{member}" for member in members)):
                if field := SET_BY_FIELDS.get(path):
                    raise ValueError(f"aws.request.{path} is set by {field}: use that instead")
            if each is None and any(path.startswith(f"{name}.") for path in SET_BY_FIELDS):
                raise ValueError(f"aws.request.{name} cannot be removed: fields of the experiment set parts of it")
        with suppress(TypeError, KeyError, AttributeError):
            if sum(instances_of(value.get("ResourceConfig", {})).values()) > 0:
                return value
        needed = "InstanceGroupName, InstanceType and InstanceCount"
        raise ValueError(f"aws.request.ResourceConfig.InstanceGroups must be a list of mappings with {needed}")

    @model_validator(mode="after")
    def _check_checkpoints(self) -> Aws:
        if self.exact_checkpoint_uri and self.checkpoint_uri is None:
            raise ValueError("aws.exact_checkpoint_uri needs aws.checkpoint_uri, the folder of the checkpoints")
        return self


class Slurm(ServiceSection):
    """Place of a job on a Slurm cluster. `machine` has the nodes, and the devices, cores and memory of each."""

    partition: Name | None = None
    """Partition. None means Slurm's default."""
    account: Name | None = None
    """Account that is charged. None means your default account."""
    qos: Name | None = None
    """Quality of service."""
    constraint: Name | None = None
    """Features that the nodes must have, such as `h100&nvlink`."""
    gpu: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=64)] | None = None
    """Type of GPU, such as `a100`, or `any`. Each node gives `machine.devices` of them. None requests no GPU."""
    options: Annotated[tuple[Annotated[str, Field(pattern=r"^-")], ...], Field(strict=False)] = ()
    """Further options of `sbatch`, such as `--exclude=node7`. They come last."""
    prologue: str = ""
    """Lines of shell that run on the first node before the job, such as `module load cuda`."""
    python: Name | None = None
    """Python on the nodes that starts the job, as a path. None means the one that runs this command."""
    prices: Name | None = None
    """File with prices in US dollars per hour: for each GPU by its type, or for a node by its partition."""


class AwsOptions(Frozen):
    """Options `--aws.*` of a verb that runs no experiment."""

    aws: Aws

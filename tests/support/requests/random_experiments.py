"""Random experiments on SageMaker, many with values at and beyond a limit of the API, and their requests."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import yaml

from experiments.planning.arms import Arm
from experiments.planning.inputs import script_inputs
from experiments.planning.load import FOLDER, load
from experiments.planning.plan import plan
from tests.support.aws.account import BUCKET, ROLE, Account
from tests.support.aws.api import ApiError
from tests.support.requests.building import staged
from training.contract.errors import InputError
from training.contract.request import build
from training.services.sagemaker.aws_context import AwsContext, job_fields, open_aws_context
from training.services.sagemaker.instance_types import device_count

Fields = dict[str, Any]

LENGTHS = (0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 499, 500, 501, 511, 512, 513)
LONG = (1024, 1025, 2048, 2049, 2498, 2499, 2500, 2501)
ALPHABETS = ("a", "a1", "ab-", "k_", "ü", "a b", "x/y", "a.b", "A=", "\N{GRINNING FACE}", "a\n", "(", "a:", "é漢", "$")
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-training:2.5-transformers4.49-gpu-py311"


def text(rng: random.Random) -> str:
    """Return a text, often with the length of a limit or one character more."""
    alphabet = rng.choice(ALPHABETS[:4]) if rng.random() < 0.5 else rng.choice(ALPHABETS)
    length = rng.choice(LONG) if rng.random() < 0.1 else rng.choice(LENGTHS)
    return "".join(rng.choice(alphabet) for _ in range(length))


def value(rng: random.Random, depth: int = 0) -> Any:
    """Return a hyperparameter: a text, a number, true, null, a list or a mapping."""
    kinds: list[Callable[[], Any]] = [
        *(lambda: text(rng), lambda: rng.randint(-(10**9), 10**9), lambda: rng.random(), lambda: None, lambda: True),
        lambda: [value(rng, depth + 1) for _ in range(rng.randint(0, 4))],
        lambda: {text(rng): value(rng, depth + 1) for _ in range(rng.randint(0, 3))},
    ]
    return rng.choice(kinds if depth < 2 else kinds[:5])()


def mapping(rng: random.Random, each: Callable[[random.Random], Any], most: int) -> dict[str, Any]:
    """Return a mapping with few entries, or about as many as are allowed."""
    count = rng.choice((most - 5, most, most + 1)) if rng.random() < 0.1 else rng.randint(1, 3)
    return {f"name{number}" if rng.random() < 0.8 else text(rng): each(rng) for number in range(count)}


@cache
def _instance_types() -> tuple[str, ...]:
    model = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
    return tuple(model.shape_for("TrainingInstanceType").enum)


def _instance_type(rng: random.Random) -> str:
    return rng.choice(_instance_types()) if rng.random() < 0.95 else rng.choice(("ml.g5.huge", "g5.xlarge", "ml.x"))


def _machine(fields: Fields, rng: random.Random) -> None:
    fields["machine"]["instance_type"] = kind = _instance_type(rng)
    fields["machine"]["devices"] = device_count(kind) or 1


def _fallbacks(fields: Fields, rng: random.Random) -> None:
    fields["machine"]["fallback_instance_types"] = [_instance_type(rng) for _ in range(rng.randint(1, 5))]


def _times(fields: Fields, rng: random.Random) -> None:
    fields["machine"] |= {
        "max_run_seconds": rng.choice((1, 3600, 2_419_200)),
        "spot": rng.random() < 0.7,
        "max_wait_seconds": rng.choice((None, 1, 3600, 2_419_200)),
        "keep_alive_seconds": rng.choice((0, 0, 1, 21_600)),
    }


def _set(place: str, name: str, make: Callable[[random.Random], Any]) -> Callable[[Fields, random.Random], None]:
    def change(fields: Fields, rng: random.Random) -> None:
        if place != "script" or "script" in fields:
            fields[place][name] = make(rng)

    return change


def _ids(rng: random.Random) -> list[str]:
    ids = [f"id-{number}" if rng.random() < 0.9 else text(rng) for number in range(rng.choice((1, 2, 5, 6, 16, 17)))]
    return [each for each in ids if each]


def _network(fields: Fields, rng: random.Random) -> None:
    fields["aws"] |= {"subnets": _ids(rng), "security_groups": _ids(rng)}


def _key(rng: random.Random) -> str:
    return rng.choice(("alias/mine", "1234abcd-12ab-34cd-56ef-1234567890ab", text(rng) or "key"))


def _tags(rng: random.Random) -> dict[str, str]:
    tags = mapping(rng, text, 50)
    return {**tags, rng.choice(("aws:mine", "AWS:x", "team", "Aws:")): text(rng)}


def _channel(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.3:
        path = rng.choice(("/rows", f"/{text(rng)}"))
        return {"data": {"file_system": "fs-0123abcd", "kind": rng.choice(("EFS", "FSxLustre")), "path": path}}
    options = {"mode": rng.choice(("File", "FastFile", "Pipe")), "distribution": rng.choice(("replicated", "by-key"))}
    return {"data": {"uri": "rows.csv", **options}}


def _regex(rng: random.Random) -> str:
    return rng.choice((r"loss ([0-9.]+)", f"({text(rng)})", text(rng) or "x"))


CHANGES: tuple[Callable[[Fields, random.Random], None], ...] = (
    *(_machine, _machine, _fallbacks, _times, _network),
    _set("machine", "volume_gib", lambda rng: rng.choice((1, 30, 125, 126, 226, 500, 4000, 16_384))),
    _set("machine", "instance_count", lambda rng: rng.choice((1, 2, 1000))),
    _set("machine", "image", lambda rng: rng.choice((IMAGE, f"{IMAGE}-{text(rng)}", text(rng) or "image"))),
    _set("aws", "role", lambda rng: rng.choice((ROLE, f"{ROLE.rpartition('/')[0]}/{text(rng) or 'x'}"))),
    _set("aws", "volume_key", _key),
    _set("aws", "output_key", _key),
    _set("aws", "tags", _tags),
    _set("aws", "isolate_network", lambda rng: True),
    _set("aws", "encrypt_traffic", lambda rng: True),
    _set("script", "hyperparameters", lambda rng: mapping(rng, value, 92)),
    _set("script", "hyperparameters", lambda rng: mapping(rng, value, 92)),
    _set("script", "environment", lambda rng: mapping(rng, text, 95)),
    _set("script", "metrics", lambda rng: mapping(rng, _regex, 40)),
    _set("script", "secrets", lambda rng: mapping(rng, lambda _: text(rng) or "secret", 3)),
    _set("script", "channels", _channel),
    _set("script", "arguments", lambda rng: rng.choice(("space", "equals"))),
)


class RandomExperiments:
    """Generator of random experiments for one account, each with its own number."""

    def __init__(self, folder: Path, account: Account, seed: int) -> None:
        """Write the files of the experiments into `folder`, the working directory."""
        self._folder, self._account, self._seed = folder, account, seed
        self._context = open_aws_context({"role": ROLE})
        self._demo = yaml.safe_load((FOLDER / "demo.yaml").read_text())
        (folder / "code").mkdir()
        (folder / "code" / "train.py").write_text("print('loss 1')\n")

    def is_accepted(self, number: int, *, fresh: bool) -> bool:
        """Plan, upload and build the job of a random experiment. With `fresh`, its inputs are not uploaded yet.

        Fails for a request that AWS would refuse after an upload, and for a refusal that is no sentence.
        """
        rng = random.Random(f"{self._seed} {number}")
        fields = self._fields(rng, f"rows of {number}" if fresh else "rows")
        before = self._puts()
        try:
            request = self._request(fields, str(number) if fresh else "rows")
            self._account.api.check("CreateTrainingJob", json.loads(json.dumps(request)))
        except InputError as error:
            refusal = str(error)
        except ApiError as error:
            raise AssertionError(f"AWS refuses experiment {number} after the upload: {error.message[:300]}") from error
        else:
            return True
        assert "\n" not in refusal, number
        assert self._puts() == before, f"experiment {number} is refused after an upload: {refusal}"
        return False

    def _fields(self, rng: random.Random, rows: str) -> Fields:
        fields: Fields = {"script": {"source": "code", "channels": {"data": "rows.csv"}}}
        (self._folder / "rows.csv").write_text(rows)
        if rng.random() < 0.3:
            fields = {name: each for name, each in self._demo.items() if name not in {"service", "machine", "compare"}}
        machine = {"instance_type": "ml.g5.xlarge"}
        if rng.random() < 0.9:  # choosing the default image takes a tenth of a second
            machine["image"] = IMAGE
        fields |= {"service": "sagemaker", "machine": machine, "aws": {"role": ROLE}}
        for change in rng.choices(CHANGES, k=rng.randint(1, 3)):
            change(fields, rng)
        return fields

    def _request(self, fields: Fields, rows: str) -> Mapping[str, Any]:
        path = self._folder / "random.yaml"
        path.write_text(json.dumps(fields, ensure_ascii=False))
        experiment = load(str(path), {})
        arm = Arm(label="alone", experiment=experiment, is_baseline=True)
        home = self._folder / "home"
        inputs = script_inputs(experiment, home) if experiment.script else staged(home, rows, has_model=True)
        [job] = plan("group", "random", [arm], 1, [inputs], home)
        return build(self._context_of(experiment.aws.given()).upload(job.spec, lambda _: None))

    def _context_of(self, options: Mapping[str, Any]) -> AwsContext:
        # Opening a context makes several calls; only the fields of the jobs differ here.
        return replace(self._context, role_arn=options["role"], fields=job_fields(options), _uris={})

    def _puts(self) -> int:
        return sum(operation.startswith(f"PUT /{BUCKET}/") for _, operation in self._account.calls)

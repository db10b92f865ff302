"""The verb `deploy`: a trained model answers requests, here or on SageMaker."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from experiments.deployments import arguments as read
from experiments.deployments.interruption import interruptible
from experiments.deployments.known_endpoints import Note, opened
from experiments.running.output import say
from models.endpoints.protocol import Endpoints, EndpointSpec, EndpointState
from training.contract.errors import EndpointNotFound, InputError, TrainfareError
from training.state.home import home

FIELDS = (
    *("run", "model", "service", "machine", "machines", "name", "lifetime", "when_over", "replace", "allow"),
    *("alias", "precision", "wait", "image"),
)
WAIT_SECONDS = 1800.0
PATIENCE_SECONDS = 30.0


def deploy(given: Mapping[str, str]) -> int:
    """Deploy the model of `run`, or of the folder `model`; see `docs/models.md`."""
    read.known_only("deploy", given, FIELDS)
    service = read.service_named(given) or "local"
    aws = read.aws_fields(given) | ({"image": given["image"]} if "image" in given else {})
    spec = _settings(given, service)
    if service == "local" and aws:
        raise InputError("aws.* and image are for service=sagemaker; this is service=local.")
    if "prices" in aws:
        from training.services.sagemaker.prices import table_price

        table_price(Path(aws["prices"]), spec.machine)  # what is wrong with it is said before anything is made
    spec = _of_run(given, spec) if "run" in given else spec
    with interruptible():
        _tell(_deployed(spec, Note(service=service, name=spec.name, when_over=spec.when_over, aws=aws)))
    return 0


def _deployed(spec: EndpointSpec, note: Note) -> EndpointState:
    """Deploy, and note where: before, so that what a killed command leaves is found, and its lifetime looked after."""
    note, service = opened(note, say)
    if spec.lifetime_seconds is not None:
        replace(note, expires=time.time() + spec.lifetime_seconds).keep()
    elif not note.path.exists():
        note.keep()
    try:
        state = service.deploy(spec, say)
    except BaseException:
        _note_what_is_left(note, service)
        raise
    note.of(state).keep()
    return state


def _note_what_is_left(note: Note, service: Endpoints) -> None:
    """Note what the service says of the endpoint now; where nobody can tell, what was noted stays."""
    try:
        note.of(service.describe(note.name)).keep()
    except EndpointNotFound:
        note.forget()
    except (TrainfareError, OSError, KeyboardInterrupt):
        return


def _settings(given: Mapping[str, str], service: str) -> EndpointSpec:
    """Return what is asked for, checked before anything is fetched; of a run, its model is filled in later."""
    if ("run" in given) == ("model" in given):
        raise InputError("deploy needs run=, a run's id, a job's name or a group's id, or else model=, a folder.")
    machine = _machine(given, service)
    folder = Path(given.get("model", "."))
    if "model" in given and not (folder / "config.json").is_file():
        raise InputError(f"model is '{folder}': it must be a folder of Transformers, with a config.json.")
    over: Literal["warn", "delete"] = "delete" if _when_over(given) == "delete" else "warn"
    return EndpointSpec(
        name=read.name_checked("name", given.get("name") or _name_of(folder)) if "run" not in given else "later",
        model=folder.resolve(),
        machine=machine,
        machines=read.whole("machines", given.get("machines", "1"), 1, 100 if service == "sagemaker" else 1),
        lifetime_seconds=read.seconds("lifetime", given["lifetime"]) if "lifetime" in given else None,
        when_over=over,
        replace=read.truth(given, "replace"),
        precision=_precision(given),
        wait_seconds=read.seconds("wait", given["wait"]) if "wait" in given else WAIT_SECONDS,
    )


def _machine(given: Mapping[str, str], service: str) -> str:
    if service == "local" and given.get("machine", "local") != "local":
        raise InputError(f"machine is '{given['machine']}': service=local has no other than this one.")
    if service == "sagemaker" and "machine" not in given:
        raise InputError("service=sagemaker needs machine=, the type of SageMaker's machine, such as ml.g4dn.xlarge.")
    return given.get("machine", "local")


def _precision(given: Mapping[str, str]) -> str | None:
    if "precision" not in given:
        return None
    return read.one_of("precision", given["precision"], ("auto", "fp32", "bf16", "fp16"))


def _when_over(given: Mapping[str, str]) -> str:
    if "when_over" in given and "lifetime" not in given:
        raise InputError("when_over tells what follows a lifetime: give lifetime=, such as 2h, too.")
    return read.one_of("when_over", given.get("when_over", "warn"), ("warn", "delete"))


def _of_run(given: Mapping[str, str], spec: EndpointSpec) -> EndpointSpec:
    """Return the spec with the model of a run, once the quality gate lets it pass."""
    from models.batch.prediction_run import evaluated
    from models.logged.model_folder import model_folder
    from models.lookup.trained_model import trained_model
    from models.lookup.versions import model_name
    from models.registry.gate import allowed_words, check
    from models.registry.registry import CHAMPION, Registry, checked_alias, registered_name
    from tracking.server.store import open_store

    allowed = allowed_words(given.get("allow", ""))
    alias = checked_alias(given.get("alias", CHAMPION))
    name = read.name_checked("name", given["name"]) if "name" in given else None
    store = open_store(retry_seconds=PATIENCE_SECONDS, otherwise="Nothing was deployed.", say=say)
    trained = trained_model(store, given["run"])
    if trained.chosen:
        say(f"Winner of group {trained.group}: {trained.chosen}")
    registered = model_name(given["run"]) or registered_name(trained.experiment_name)
    check(trained, Registry(store).in_use(registered, alias), allowed)
    known = evaluated(store, trained)
    return replace(
        spec,
        evaluated_precision=known.precision,
        max_length=known.max_length,
        name=name or read.name_checked("name", trained.job_name),
        model=model_folder(store, trained, home(), say),
        task=trained.task or None,
        run_id=trained.run_id,
        model_id=trained.model_id,
        artifact_uri=trained.artifact_uri,
        versions=trained.versions,
    )


def _name_of(folder: Path) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", folder.resolve().name).strip("-")[:63].strip("-") or "model"


def _tell(state: EndpointState) -> None:
    say(f"Endpoint: {state.name} ({state.service}, {state.status})")
    say(f"Address: {state.address}")
    if state.price:
        price = state.price
        say(f"Costs: {price.usd_per_hour * state.machines:.4g} USD an hour ({price.source}, {price.date})")
    if state.expires:
        then = "is then deleted" if state.when_over == "delete" else "is then warned of"
        say(f"Lifetime: until {state.expires:%Y-%m-%d %H:%M} UTC; it {then} by the next command")
    say(f'Ask it: python -m experiments predict --endpoint {state.name} --text "..."')

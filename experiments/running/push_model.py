"""Push the trained model of `train` to the Hugging Face Hub, from its artifact. No job gets the token.

The repository is opened before the training starts, so that a wrong token or name costs seconds. The address in the
run's tag shows that a model is pushed. Until then the group stays open: the same command pushes it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import yaml

from experiments.running.output import print_line
from experiments.schema.fields import PushToHub
from judging.measures import COMMONEST
from models.logged.log_model import MODEL_TAG
from models.logged.model_folder import MODELS_FOLDER, unfinished_folder
from state.home import home
from tracking.groups.group import Group
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import Outcome
from tracking.server.store import Store
from training.contract.errors import InputError, TrainfareError
from training.contract.service import Service
from training.job.tasks import TASKS
from training.services.artifact import unpack

URL = "platform.hub_url"
"""Tag of a run whose model is pushed."""
IGNORED_FILES = ("training_args.bin", "checkpoint-*")
"""Trainer's own files, which are not pushed because they contain local paths."""
MESSAGE_CHARACTERS = 400
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
HIDDEN_SETTINGS = ("model", "model_revision", "push_")
HIDDEN_METRICS = ("_runtime", "_per_second", COMMONEST)


def open_repository(push: PushToHub) -> tuple[Any, str]:
    """Create the repository and its branch unless they exist. Return the client and its token.

    Raises TrainfareError if there is no token, or if the Hub does not accept the push.
    """
    from huggingface_hub import HfApi

    token = find_token()
    api = HfApi(token=token)
    with _translated(push, token):
        api.create_repo(push.repository, private=push.private, exist_ok=True)
        if push.private and not api.model_info(push.repository).private:
            raise InputError(
                f"push_to_hub: repository {push.repository} is public, but push_to_hub.private is true: use a private "
                "repository, or set push_to_hub.private to false"
            )
        if push.revision is not None:
            api.create_branch(push.repository, branch=push.revision, exist_ok=True)
    return api, token


def push_of(planned: PlannedJob) -> PushToHub | None:
    """Return where the plan of a job pushes its model, or None."""
    fields = (yaml.safe_load(planned.experiment_yaml) or {}).get("push_to_hub")
    return PushToHub.model_validate(fields) if fields else None


def push_models(store: Store, service: Service, group: Group, outcomes: Sequence[Outcome]) -> bool:
    """Push the models of completed jobs that are not pushed yet. Return False, after a sentence, if one is missing.

    Raises TrackingError.
    """
    is_whole = True
    for outcome in outcomes:
        if outcome.failure or (push := push_of(outcome.planned)) is None:
            continue
        run = store.call(store.client.get_run, outcome.run_id)
        if URL in run.data.tags:
            continue
        try:
            url = _push(service, outcome.planned, push, run)
        except (TrainfareError, OSError) as error:
            is_whole = False
            reason = str(error).rstrip(".").removeprefix("push_to_hub: ")
            print_line(
                f"{outcome.planned.spec.name} trained, but its model was not pushed: {reason}. Run the same "
                f"command, or `trainfare attach --group {group.id}`, to push it; nothing is trained again."
            )
            continue
        store.tag(outcome.run_id, {URL: url})
        print_line(f"The model of {outcome.planned.spec.name} is pushed to {url}")
    return is_whole


def _push(service: Service, planned: PlannedJob, push: PushToHub, run: Any) -> str:
    """Upload the files of the job's artifact with a model card, in one commit, and return the address."""
    from huggingface_hub.constants import ENDPOINT

    if (uri := run.data.tags.get(MODEL_TAG)) is None:
        raise InputError("its job left no model artifact")
    settings = {name[3:]: value for name, value in run.data.params.items() if name.startswith("hp.")}
    base = None if "model" in planned.spec.channels else hub_name(settings.get("model", ""))
    card = model_card(push.repository.rpartition("/")[2], base, settings, run.data.metrics)
    api, token = open_repository(push)
    with unfinished_folder(home() / MODELS_FOLDER) as folder:
        with service.open_model(uri) as archive:
            unpack(archive, Path(folder), archive_name=f"The model artifact {uri}")
        Path(folder, "README.md").write_text(card, "utf-8")
        with _translated(push, token):
            api.upload_folder(
                repo_id=push.repository,
                folder_path=folder,
                revision=push.revision,
                commit_message=f"{settings['task']} trained by trainfare",
                ignore_patterns=list(IGNORED_FILES),
            )
    return f"{ENDPOINT}/{push.repository}{f'/tree/{push.revision}' if push.revision else ''}"


@contextmanager
def _translated(push: PushToHub, token: str) -> Iterator[None]:
    """Raise the library's errors as InputError. Hide the token in them and in its output: a server may repeat it."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            yield
    except InputError:
        raise
    # A refusal, a wrong name and a missing network have no common class.
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}".replace(token, "(hidden)")
        raise InputError(f"push_to_hub: cannot push to {push.repository}: {reason[:MESSAGE_CHARACTERS]}") from None
    finally:
        for line in printed.getvalue().replace(token, "(hidden)").splitlines():
            print_line(line)


def find_token() -> str:
    """Return the token of this machine for the Hub. Raises InputError without one."""
    from huggingface_hub import get_token

    if (token := get_token()) is None:
        raise InputError("push_to_hub needs a token: set HF_TOKEN to one with write permission, or run `hf auth login`")
    return token


def model_card(title: str, base_model: str | None, settings: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """Return the README.md of a model. `base_model` is a name on the Hub; None hides the path of a private model."""
    task = str(settings["task"])
    head = ["library_name: transformers", "tags: [trainfare]"]
    head += [f"pipeline_tag: {TASKS[task].pipeline}"] if task in TASKS else []
    head += [f"base_model: {json.dumps(base_model)}"] if base_model else []
    start = f"[{base_model}](https://huggingface.co/{base_model})" if base_model else "a private model"
    origin = "from the architecture of" if settings.get("weights") == "random" else "from"
    scores = [
        (name, value)
        for name, value in sorted(metrics.items())
        if name == "train_loss" or (name.startswith("eval_") and not name.endswith(HIDDEN_METRICS))
    ]
    shown = [
        (name, str(value).replace("|", "\\|").replace("\n", " "))
        for name, value in sorted(settings.items())
        if value is not None and value != () and not name.startswith(HIDDEN_SETTINGS)
    ]
    return "\n".join(
        [
            *("---", *head, "---", "", f"# {title}", "", f"Trained for {task}, {origin} {start}.", ""),
            *("## Evaluation", "", "| metric | value |", "| --- | --- |"),
            *(f"| {name} | {value:.4g} |" for name, value in scores),
            *("", "## Settings", "", "| setting | value |", "| --- | --- |"),
            *(f"| {name} | {text} |" for name, text in shown),
            "",
        ]
    )


def hub_name(model: str) -> str | None:
    """Return a model's name on the Hub, or None for a path."""
    return model if HUB_NAME.fullmatch(model) else None

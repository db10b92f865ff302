"""The trained model goes to the Hugging Face Hub. Only the first process of a job comes here."""

import io
import sys
from base64 import b64encode
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional

from publishing.hub_token import find_token
from reporting.errors import ArgumentError
from reporting.events import Events
from settings.arguments import Arguments

UNSENT = ("training_args.bin", "checkpoint-*")
"""Trainer's own notes, which hold paths of this machine."""
MESSAGE_CHARACTERS = 400


@dataclass(frozen=True)
class Destination:
    """A repository that takes the model."""

    repository: str
    """owner/name."""
    revision: Optional[str]
    """Branch; None is main."""
    message: str
    """Of the commit."""
    token: str = field(repr=False)


def open_destination(arguments: Arguments, environment: Mapping[str, str], events: Events) -> Optional[Destination]:
    """Return where the model will go, or None; the repository exists then and takes the token.

    Before the training, so that a wrong token or name costs seconds. Raises `ArgumentError`.
    """
    if arguments.push_to_hub is None:
        return None
    token = find_token(arguments.push_token_variable, arguments.push_token_secret, environment)
    events.hide(token)
    # As old versions of huggingface_hub send it with large files.
    events.hide(b64encode(f"access_token:{token}".encode()).decode())
    message = arguments.push_message or f"{arguments.task} trained by trainfare"
    destination = Destination(arguments.push_to_hub, arguments.push_revision, message, token)
    try:
        with _masked_output(events):
            _open(destination, arguments.push_private)
    except ArgumentError:
        raise
    # Refused, unreachable, offline, a wrong name: each version raises classes of its own.
    except Exception as error:
        raise ArgumentError(f"push_to_hub {destination.repository} is not possible: {said(error, events)}") from error
    return destination


def _open(destination: Destination, private: bool) -> None:
    from huggingface_hub import HfApi

    api: Any = HfApi()
    place = {"repo_id": destination.repository, "token": destination.token}
    api.create_repo(private=private, exist_ok=True, **place)
    if private and not api.model_info(**place).private:
        raise ArgumentError(f"push_to_hub: repository {destination.repository} is public, and private was asked for")
    if destination.revision is not None:
        if not hasattr(api, "create_branch"):
            raise ArgumentError("push_revision needs huggingface_hub 0.12 or later; this image can push to main alone")
        api.create_branch(branch=destination.revision, exist_ok=True, **place)


def push(folder: Path, destination: Destination, events: Events) -> Dict[str, Any]:
    """Upload the folder; return the repository with the address of what was pushed, or with the failure.

    A failure is told and not raised: a job that fails loses its model.
    """
    from huggingface_hub import HfApi

    told: Dict[str, Any] = {"repository": destination.repository}
    try:
        with _masked_output(events):
            commit = HfApi().upload_folder(
                repo_id=destination.repository,
                folder_path=str(folder),
                path_in_repo="",
                revision=destination.revision,
                commit_message=destination.message,
                token=destination.token,
                ignore_patterns=list(UNSENT),
            )
    except Exception as error:
        reason = said(error, events)
        events.emit("note", message=f"not pushed to {destination.repository}: {reason}; the job keeps the model")
        return {**told, "failure": reason}
    events.emit("note", message=f"pushed to {destination.repository}")
    return {**told, "url": _address(destination), "commit": getattr(commit, "oid", None)}


@contextmanager
def _masked_output(events: Events) -> Iterator[None]:
    """Hold back what the library prints meanwhile, such as a server's warnings, and print it without the token."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            yield
    finally:
        sys.stderr.write(events.masked(printed.getvalue()))


def said(error: Exception, events: Events) -> str:
    """Return an error's message on one line: the server's own words stand on later ones."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return events.masked(f"{type(error).__name__}: {' '.join(lines)}")[:MESSAGE_CHARACTERS]


def _address(destination: Destination) -> str:
    from huggingface_hub.constants import ENDPOINT

    branch = f"/tree/{destination.revision}" if destination.revision else ""
    return f"{ENDPOINT}/{destination.repository}{branch}"

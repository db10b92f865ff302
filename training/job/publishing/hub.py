"""Push the trained model to the Hugging Face Hub. Only the first process of a job does this."""

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

IGNORED_FILES = ("training_args.bin", "checkpoint-*")
"""Trainer's own files, which are not pushed because they contain local paths."""
MESSAGE_CHARACTERS = 400


@dataclass(frozen=True)
class Destination:
    """The repository to push to."""

    repository: str
    """Name on the Hub: owner/name."""
    revision: Optional[str]
    """Branch; None means main."""
    message: str
    """Commit message."""
    token: str = field(repr=False)


def open_destination(arguments: Arguments, environment: Mapping[str, str], events: Events) -> Optional[Destination]:
    """Create the repository and check that it accepts the token.

    Return the destination, or None if the job does not push. Raises `ArgumentError`.

    Called before the training starts, so that a wrong token or name costs seconds instead of a whole training run.
    """
    if arguments.push_to_hub is None:
        return None
    token = find_token(arguments.push_token_variable, arguments.push_token_secret, environment)
    events.hide(token)
    # For large files, old versions of huggingface_hub send the token in this form.
    events.hide(b64encode(f"access_token:{token}".encode()).decode())
    message = arguments.push_message or f"{arguments.task} trained by trainfare"
    destination = Destination(arguments.push_to_hub, arguments.push_revision, message, token)
    try:
        with _masked_output(events):
            _open(destination, arguments.push_private)
    except ArgumentError:
        raise
    # Each version of huggingface_hub raises different classes for a refusal, a wrong name or a missing network.
    except Exception as error:
        raise ArgumentError(f"cannot push to {destination.repository}: {error_message(error, events)}") from error
    return destination


def _open(destination: Destination, private: bool) -> None:
    from huggingface_hub import HfApi

    api: Any = HfApi()
    target = {"repo_id": destination.repository, "token": destination.token}
    api.create_repo(private=private, exist_ok=True, **target)
    if private and not api.model_info(**target).private:
        raise ArgumentError(
            f"push_to_hub: repository {destination.repository} is public, but push_private is True: "
            "use a private repository, or set push_private to False"
        )
    if destination.revision is not None:
        if not hasattr(api, "create_branch"):
            raise ArgumentError("push_revision needs huggingface_hub 0.12 or later; this image can only push to main")
        api.create_branch(branch=destination.revision, exist_ok=True, **target)


def push(folder: Path, destination: Destination, events: Events) -> Dict[str, Any]:
    """Upload the folder.

    Return the repository with the address and commit of the upload, or with the reason for the failure. A failure is
    reported, not raised, because a job that fails loses its model.
    """
    from huggingface_hub import HfApi

    result: Dict[str, Any] = {"repository": destination.repository}
    try:
        with _masked_output(events):
            commit = HfApi().upload_folder(
                repo_id=destination.repository,
                folder_path=str(folder),
                path_in_repo="",
                revision=destination.revision,
                commit_message=destination.message,
                token=destination.token,
                ignore_patterns=list(IGNORED_FILES),
            )
    except Exception as error:
        reason = error_message(error, events)
        events.emit(
            "note",
            message=f"could not push to {destination.repository}: {reason}; the model is in the job's artifact",
        )
        return {**result, "failure": reason}
    events.emit("note", message=f"pushed to {destination.repository}")
    return {**result, "url": _address(destination), "commit": getattr(commit, "oid", None)}


@contextmanager
def _masked_output(events: Events) -> Iterator[None]:
    """Hold back the library's output, such as warnings from the server, and print it without the token."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            yield
    finally:
        sys.stderr.write(events.mask(printed.getvalue()))


def error_message(error: Exception, events: Events) -> str:
    """Return an error's message as one line without the token. The server's own message is often on a later line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return events.mask(f"{type(error).__name__}: {' '.join(lines)}")[:MESSAGE_CHARACTERS]


def _address(destination: Destination) -> str:
    from huggingface_hub.constants import ENDPOINT

    branch = f"/tree/{destination.revision}" if destination.revision else ""
    return f"{ENDPOINT}/{destination.repository}{branch}"

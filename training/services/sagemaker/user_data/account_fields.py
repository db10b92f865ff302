"""Region and credentials with which a user's data in S3 is read. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class AccountFields:
    """Region and profile of an experiment. None means those of the environment."""

    region: str | None = None
    profile: str | None = None


ANY_ACCOUNT = AccountFields()

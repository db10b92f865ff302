"""Groups of verbs: they refuse an unknown verb in one sentence, and import a verb's file on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from training.contract.errors import InputError, nearest


@contextmanager
def usage_errors_of(ctx: click.Context) -> Iterator[None]:
    """Attach this command's context to usage errors. Click's parser raises them without one."""
    try:
        yield
    except click.UsageError as error:
        error.ctx = error.ctx or ctx
        raise


class VerbGroup(click.Group):
    """A group whose verbs are listed in the order of their declaration."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs."""
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options of the group. Raises `click.UsageError`."""
        with usage_errors_of(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb. Raises `InputError` for an unknown one."""
        names = self.list_commands(ctx)
        if args[0] not in names and not ctx.resilient_parsing:
            outer = "" if ctx.parent is None else f"{ctx.info_name} "
            hint = nearest(args[0], names)
            raise InputError(f"unknown command '{outer}{args[0]}': it must be one of {', '.join(names)}.{hint}")
        return super().resolve_command(ctx, args)


class LazyVerbGroup(VerbGroup):
    """A group that imports each verb when it is needed: the attribute `command` of the module with its name."""

    def __init__(self, *args: Any, package: str, names: Sequence[str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.package = package
        self.names = names

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs."""
        return list(self.names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a verb."""
        if cmd_name not in self.names:
            return None
        command: click.Command = import_module(f"{self.package}.{cmd_name}").command
        return command

"""Click commands of this project: help with examples, and options for any field of an experiment."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from experiments.running.options import one_of
from experiments.schema.other_names import advice, hint
from training.contract.errors import InputError

HELP_NAMES = ("-h", "--help")
CONTEXT_SETTINGS = {"help_option_names": HELP_NAMES, "max_content_width": 100}
FORMAT, TRUST = "format", "trust"
FORMATS = ("text", "json")
FLAGS = frozenset({TRUST, "all", "overview"})
"""Fields that are true without a value."""


class VerbGroup(click.Group):
    """A group whose verbs are listed in the order of their declaration."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb. Raises `InputError` for an unknown one."""
        names = self.list_commands(ctx)
        if args[0] not in names and not ctx.resilient_parsing:
            outer = "" if ctx.parent is None else f"{ctx.info_name} "
            meant = hint(args[0], names)
            raise InputError(f"unknown command '{outer}{args[0]}': it must be one of {', '.join(names)}.{meant}")
        return super().resolve_command(ctx, args)


class FieldVerb(click.Command):
    """A verb that receives its options as a mapping of names to texts, in the argument `fields`.

    The declared options serve the help and shell completion. Click's parser does not read the arguments, because it
    knows only declared options, and any field of an experiment is an option too. A closed verb refuses undeclared
    names, except those with one of `prefixes`. For an open verb, the called function checks the names.
    """

    def __init__(
        self,
        *args: Any,
        is_closed: bool,
        prefixes: tuple[str, ...] = (),
        formats: Sequence[str] = FORMATS,
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self.formats = formats
        format_of(formats)(self)
        self.is_closed = is_closed
        self.prefixes = prefixes

    @property
    def field_names(self) -> list[str]:
        return [param.opts[0].removeprefix("--") for param in self.params]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing or not set(args).isdisjoint(HELP_NAMES):
            return super().parse_args(ctx, args if ctx.resilient_parsing else ["--help"])
        fields = dict(self.checked_fields(str(ctx.info_name), read_fields(args)))
        if (chosen := one_of(FORMAT, fields.pop(FORMAT, FORMATS[0]), self.formats)) not in FORMATS:
            fields[FORMAT] = chosen
        ctx.params = {"fields": fields}
        return []

    def checked_fields(self, verb: str, fields: Mapping[str, str]) -> Mapping[str, str]:
        """Return the fields by the names of their declaration: `--max-usd` also sets `max_usd`, and the reverse.

        Raises `InputError` for a field that is set under both spellings, and for a name that a closed verb lacks.
        """
        known = self.field_names
        declared = {name.replace("-", "_"): name for name in known}
        checked: dict[str, str] = {}
        for name, value in fields.items():
            plain = name.replace("-", "_")
            # A key of a mapping, such as a script's hyperparameter, may contain a hyphen.
            full = name if "." in name else declared.get(plain, plain)
            if full in checked:
                raise InputError(f"--{full} is set twice, to '{checked[full]}' and to '{value}'.")
            if self.is_closed and full not in known and not full.startswith(self.prefixes):
                raise InputError(
                    f"unknown field '{full}' of {verb}: it must be one of {', '.join(known)}.{hint(full, known)}"
                )
            checked[full] = value
        return checked

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the declared options and, for an open verb, all fields of an experiment."""
        items = super().shell_complete(ctx, incomplete)
        if self.is_closed or not incomplete.startswith("--"):
            return items
        from experiments.schema.overrides import known_fields

        names = (f"--{name}" for name in known_fields() if name not in self.field_names)
        return [*items, *(CompletionItem(name) for name in names if name.startswith(incomplete))]


def read_fields(arguments: Sequence[str]) -> Mapping[str, str]:
    """Return `--name value` and `--name=value` pairs as a mapping. Raises `InputError`.

    The argument after a name is always its value, because values may begin with a hyphen: a negative number, for
    example. Only one of `FLAGS` may stand alone, which means true.
    """
    fields: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name = rest.pop(0)
        if not name.startswith("--") or name == "--":
            raise InputError(f"unexpected argument '{name}': write fields as --name value.")
        name, equals, value = name[2:].partition("=")
        if not equals and name in FLAGS and (not rest or rest[0].startswith("--")):
            value = "true"
        elif not equals:
            if not rest:
                raise InputError(f"--{name} has no value: write fields as --name value.{advice(name)}")
            value = rest.pop(0)
        if name in fields:
            raise InputError(f"--{name} is set twice, to '{fields[name]}' and to '{value}'.")
        fields[name] = value
    return fields


def field(name: str, help: str, **attributes: Any) -> Callable[[Any], Any]:
    """Return the decorator that declares the option `--name` of a `FieldVerb`; the name may have dots."""
    return click.option(f"--{name}", re.sub(r"[.-]", "_", name), help=help, **attributes)


def experiment_field(
    help: str = "Name of an experiment in experiments/, or path of a .yaml file.",
) -> Callable[[Any], Any]:
    return field("experiment", help, metavar="NAME", default="demo", show_default=True, shell_complete=_names)


def _names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from experiments.planning.load import experiment_names

    return [name for name in experiment_names() if name.startswith(incomplete)]


def format_of(formats: Sequence[str] = FORMATS) -> Callable[[Any], Any]:
    """Return the decorator that declares `--format`. `experiments.__main__` reads it, and writes the answer."""
    return click.option(
        f"--{FORMAT}",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        expose_value=False,
        help="Format of the output. docs/output.md describes the JSON.",
    )


format_option = format_of()

fail_on_option = field(
    "fail-on",
    "Exit with code 3 if any arm (of a sweep, the winner) has one of these results, separated by commas: dearer, worse "
    "(in quality), inconclusive, failed (a job).",
    metavar="RESULTS",
)

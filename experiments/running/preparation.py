"""Preparation of a command: its steps before the first effect, made in the same order for a start and for a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from experiments.planning.arms import Arm
from experiments.planning.inputs import Inputs
from experiments.planning.staged_inputs import stage_inputs
from experiments.running.output import print_line
from experiments.running.service_context import ServiceContext, open_service_context
from experiments.schema.experiment import Experiment

Result = TypeVar("Result")


class Preparation(Protocol):
    """The ways in which the preparations of a start and of a plan differ."""

    def attempt(self, step: Callable[[], Result]) -> Result | None:
        """Return the result of a step. An error of a user ends a start. A plan collects it, and the result is None."""

    def echo(self, text: str) -> None:
        """Print a line, or collect it as a note of the plan."""

    def stage(self, arms: Sequence[Arm]) -> Sequence[Inputs | None]:
        """Return the inputs of each arm; in a plan, None for those that are refused. Nothing that a plan stages stays.

        Raises InputError for a start.
        """

    def open_context(self, experiment: Experiment) -> ServiceContext:
        """Open the service of the experiment's jobs. That of a plan is read-only. Raises InputError, AccessError."""


class Start:
    """Preparation of a command that starts jobs."""

    def attempt(self, step: Callable[[], Result]) -> Result | None:
        """Return the result of a step."""
        return step()

    def echo(self, text: str) -> None:
        """Print a line."""
        print_line(text)

    def stage(self, arms: Sequence[Arm]) -> Sequence[Inputs | None]:
        """Return the staged inputs of each arm."""
        return stage_inputs(arms, print_line)

    def open_context(self, experiment: Experiment) -> ServiceContext:
        """Open the service of the experiment's jobs."""
        return open_service_context(experiment, print_line)

"""Preparation of a command: its steps before the first effect, in the same order for a start and for a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from experiments.planning.arms import Arm
from experiments.planning.inputs import Inputs, stage_inputs
from experiments.running.output import print_line
from experiments.running.service_context import ServiceContext, open_service_context
from experiments.schema.experiment import Experiment
from judging.design import Design

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Jobs of a command, checked and not started: what a start carries out, and what a plan shows."""

    verb: str
    name: str
    """Name of the experiment."""
    experiment: Experiment
    """Experiment whose fields about the service and the group are those of all jobs."""
    arms: tuple[Arm, ...]
    """Arms with all inputs of the jobs."""
    parallel: int
    """Jobs to run at the same time."""
    design: Design | None
    """Looks of a comparison or at a sweep's repeats; None without looks."""
    fail_on: frozenset[str]
    """Results for which the command fails."""
    inputs: Sequence[Inputs | None] = ()
    """Inputs of each arm; None if they are refused."""
    context: ServiceContext | None = None
    """Service of the jobs; None if it is refused."""
    budget_text: Sequence[str] = ()
    """Sentences about the budget; empty without one."""

    @property
    def arm_inputs(self) -> list[tuple[Arm, Inputs]]:
        """Arms whose inputs are not refused."""
        return [(arm, each) for arm, each in zip(self.arms, self.inputs, strict=True) if each is not None]

    @property
    def is_complete(self) -> bool:
        """True if neither the service nor the inputs of any arm are refused."""
        return self.context is not None and None not in self.inputs


AnyPrepared = TypeVar("AnyPrepared", bound=Prepared)


class Preparation:
    """The steps before a start. Those of a plan change nothing, and collect errors: see `ScratchState`."""

    def attempt(self, step: Callable[[], Result]) -> Result | None:
        """Return the result of a step. A plan collects a user's error, and the result is None."""
        return step()

    def echo(self, text: str) -> None:
        """Print a line. A plan collects it as a note."""
        print_line(text)

    def stage(self, arms: Sequence[Arm]) -> Sequence[Inputs | None]:
        """Return the inputs of each arm; in a plan, None for those that are refused."""
        return stage_inputs(arms, self.echo)

    def open_context(self, experiment: Experiment) -> ServiceContext:
        """Open the service of the experiment's jobs. Raises InputError, AccessError."""
        return open_service_context(experiment, self.echo)

    def with_inputs(self, prepared: AnyPrepared) -> AnyPrepared:
        """Return jobs with their inputs and their service.

        Data comes first: an error in it leaves nothing behind, not even an empty tracking database.
        """
        inputs = self.stage(prepared.arms)
        return replace(prepared, inputs=inputs, context=self.attempt(partial(self.open_context, prepared.experiment)))

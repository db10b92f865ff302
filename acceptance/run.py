"""Run an acceptance: check, show the costs, run the steps, compare, clean up, and write the report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from acceptance import report as reports
from acceptance.checks import Check, run_checks
from acceptance.cleanup import clean_up, lasting
from acceptance.costs import Prices, check_budget, cost_table, step_costs
from acceptance.expectations import differences
from acceptance.options import Options
from acceptance.report import Report, StepResult
from acceptance.session import Session
from acceptance.steps import INSTANCE_TYPE, Step, chosen_steps
from acceptance.ways import WAYS, Account
from acceptance.workloads import write_workloads
from training.contract.errors import AccessError, TrainfareError
from training.contract.price import Price
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.identity import account_of
from training.services.sagemaker.prices import Component, listed_price, table_price
from training.state.home import home

INTERRUPTED = 130
SHOWN = 200
"""Characters of an observed value on the terminal. The report has more of it."""


def accept(options: Options) -> int:
    """Run the acceptance and return the exit code: 0 as expected, 1 differences or failures, 130 interrupted.

    Raises AccessError if a check fails, and InputError if the budget is too small or a price is unknown. Then nothing
    was started.
    """
    clients, steps = Clients(options.region), chosen_steps(options)
    checks = _checked(options, clients, steps)
    prices = _prices(options, clients)
    costs = step_costs(steps, prices)
    print("\nMost that each step can cost:")
    print(*cost_table(costs, prices, options.budget_usd), sep="\n", flush=True)
    check_budget(costs, options.budget_usd)
    report = Report(
        id=options.id,
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        region=clients.region,
        account=account_of(clients),
        checks=checks,
        costs=costs,
    )
    options.folder.mkdir(parents=True)
    experiments = write_workloads(options, steps)
    account = Account(session=Session(options), clients=clients, prices=prices, experiments=experiments)
    try:
        _run_steps(account, steps, report)
    except KeyboardInterrupt:
        report.interrupted = True
        print("\nInterrupted: ending what runs.", flush=True)
    finally:
        _finish(account, report)
    return INTERRUPTED if report.interrupted else 0 if report.has_passed else 1


def _checked(options: Options, clients: Clients, steps: Mapping[str, Step]) -> Sequence[Check]:
    checks = run_checks(options, clients, steps)
    print(*checks, sep="\n", flush=True)
    if failed := [each.name for each in checks if each.outcome == "failed"]:
        raise AccessError(f"The account is not ready ({', '.join(failed)}). Nothing was started.")
    return checks


def _prices(options: Options, clients: Clients) -> Prices:
    def price(component: Component) -> Price | None:
        if options.prices:
            return table_price(str(options.prices), INSTANCE_TYPE)
        return listed_price(clients, INSTANCE_TYPE, home() / "prices.json", print, component, is_read_only=True)

    return Prices(training=price("Training"), hosting=price("Hosting"))


def _run_steps(account: Account, steps: Mapping[str, Step], report: Report) -> None:
    for name, step in steps.items():
        print(f"\n{name}: {step.title}", flush=True)
        result, started = StepResult(name=name, title=step.title), time.monotonic()
        report.results.append(result)
        try:
            result.observed = WAYS[name](account, name)
            result.differences = differences(name, result.observed)
        except TrainfareError as error:
            result.error = str(error)
        except KeyboardInterrupt:
            result.error = "interrupted"
            raise
        result.seconds = time.monotonic() - started
        print(f"  {result.error or _counted(len(result.differences))}", flush=True)
        for each in result.differences:
            print(
                f"    {each.value}: {each.expected} was expected, {str(each.observed)[:SHOWN]} was observed", flush=True
            )


def _counted(count: int) -> str:
    return f"{count or 'no'} difference{'s' * (count != 1)}"


def _finish(account: Account, report: Report) -> None:
    """Clean up, and write the report whatever happens."""
    try:
        report.left = clean_up(account)
    except KeyboardInterrupt:
        report.interrupted = True
        report.left = [f"Jobs and the endpoint named {account.endpoint_name.removesuffix('endpoint')}* may still run."]
    try:
        report.lasting = lasting(account)
    finally:
        folder = account.session.options.folder
        (folder / "report.md").write_text(reports.markdown(report))
        (folder / "report.json").write_text(reports.json_text(report))
    print("\nLeft in the account:")
    print(*(f"- {sentence}" for sentence in [*report.left, *report.lasting]), sep="\n")
    print(f"Report: {folder / 'report.md'} and report.json", flush=True)

"""The `jobs` verb: what runs, here or at SageMaker, since when, how to stop it, and what of it may be deleted."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from experiments.running import job_costs
from training.contract.errors import InputError, nearest
from training.contract.price import Price
from training.contract.service import Description, Service
from training.services.local.service import LocalService
from training.state.home import home

VERBS = ("list", "log", "prune", "stop")


def main(arguments: Sequence[str]) -> int:
    """Run `jobs [--service sagemaker] list [--prices FILE]`, `stop NAME`, `stop --group ID`, `log NAME`, or `prune`."""
    words = list(arguments)
    chosen, prices = _taken(words, "--service") or "local", _taken(words, "--prices")
    if words[:1] == ["prune"]:
        return _prune(chosen, words[1:])
    service = _service(chosen)
    match words or ["list"]:
        case ["list"]:
            _list(_listed(service), job_costs.price_of(chosen, prices, print))
        case ["stop", "--group", group]:
            for name in _of_group(service, group):
                _stop(service, name)
        case ["stop", name]:
            _stop(service, name)
        case ["log", name]:
            _print_log(service, name)
        case [verb, *rest] if verb not in VERBS:
            raise InputError(f"unknown verb 'jobs {verb}': it must be one of {', '.join(VERBS)}.{nearest(verb, VERBS)}")
        case [verb, *rest]:
            raise InputError(f"jobs {verb} {' '.join(rest)}: give {'no name' if verb == 'list' else 'one job name'}.")
    return 0


def _prune(service: str, words: Sequence[str]) -> int:
    if service != "local":
        raise InputError(f"jobs prune deletes what lies on this machine; --service {service} has nothing here.")
    from experiments.commands.prune import prune

    return prune(words)


def _taken(words: list[str], option: str) -> str | None:
    """Take an option and its value out of the words, and return the value."""
    if option not in words:
        return None
    at = words.index(option)
    value = "".join(words[at + 1 : at + 2])
    del words[at : at + 2]
    return value


def _service(name: str) -> Service:
    if name == "sagemaker":
        from training.services.sagemaker.clients import Clients
        from training.services.sagemaker.identity import account_of
        from training.services.sagemaker.service import SageMakerService

        clients = Clients()
        account_of(clients)  # whoever has no credentials, or no network, hears so at once
        return SageMakerService(clients)
    if name != "local":
        raise InputError(f"--service is '{name}': it must be local or sagemaker.")
    return LocalService(home())


def _listed(service: Service) -> list[Description]:
    """Return the jobs; of those that run, all that is known, for the list alone does not tell since when they cost."""
    if service.name == "local":
        return service.jobs()
    # Those that run first, however many have ended since.
    running = {each["TrainingJobName"]: each for each in service.jobs(running_only=True)}
    return [service.describe(name) for name in running] + [
        each for each in service.jobs() if each["TrainingJobName"] not in running
    ]


def _list(descriptions: Sequence[Description], ask: job_costs.PriceOf) -> None:
    known = job_costs.prices(descriptions, ask)
    # A name that is cut cannot be given to `stop`: whole names, also where nobody looks at a terminal.
    Console(width=None if sys.stdout.isatty() else 200).print(_table(descriptions, known))
    if said := job_costs.total(descriptions, known):
        print(said)


def _of_group(service: Service, group: str) -> list[str]:
    names = [each["TrainingJobName"] for each in service.jobs(running_only=True)]
    found = [name for name in names if name.startswith(f"{group}-")]
    if not found:
        raise InputError(f"jobs stop --group {group}: no job of this group runs.")
    return found


def _stop(service: Service, name: str) -> None:
    service.stop(name)
    print(f"{name}: {service.describe(name)['TrainingJobStatus']}")


def _print_log(service: Service, name: str) -> None:
    service.describe(name)
    cursor = None
    while (page := service.logs(name, cursor)).lines:
        print(*page.lines, sep="\n")
        cursor = page.cursor


def _table(descriptions: Sequence[Description], known: dict[str, Price]) -> Table:
    table = Table(box=None, header_style="bold")
    longest = max((len(description["TrainingJobName"]) for description in descriptions), default=0)
    table.add_column("job", no_wrap=True, min_width=longest)
    table.add_column("status", no_wrap=True)
    table.add_column("started", no_wrap=True)
    table.add_column("billable s", no_wrap=True, justify="right")
    table.add_column("USD", no_wrap=True, justify="right")
    table.add_column("reason", overflow="ellipsis", no_wrap=True)
    for description in descriptions:
        table.add_row(
            description["TrainingJobName"],
            description["SecondaryStatus"],
            f"{description['CreationTime'].astimezone():%Y-%m-%d %H:%M}",
            _billable(description),
            "" if (usd := job_costs.usd_so_far(description, known)) is None else f"{usd:.2f} so far",
            description.get("FailureReason", "").splitlines()[0] if description.get("FailureReason") else "",
        )
    return table


def _billable(description: Description) -> str:
    so_far, seconds = job_costs.seconds_so_far(description), description.get("BillableTimeInSeconds")
    if so_far is not None and seconds is None:
        return f"{so_far:.0f} so far"
    return "" if seconds is None else str(seconds)

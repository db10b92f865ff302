"""The user's table of prices."""

from __future__ import annotations

from datetime import date

import yaml

from state.regular_files import read_regular, user_path
from training.contract.errors import InputError
from training.contract.price import Price

MAX_TABLE_BYTES = 2**20


def table_price(name: str, key: str, field: str) -> Price | None:
    """Return the price in the file that an experiment's `field` names, or None if the table does not contain the key.

    The file is JSON or YAML of the form `{"date": ..., "usd_per_hour": {"ml.g5.xlarge": 1.4}}`. Raises InputError for
    any other file.
    """
    table = user_path(name, field)
    try:
        content = yaml.safe_load(read_regular(table, MAX_TABLE_BYTES, follow_links=True))
        day, value = date.fromisoformat(str(content["date"])), content["usd_per_hour"].get(key)
        price = None if value is None else float(value)
    except OSError as error:
        raise InputError(f"Price table {table} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        raise InputError(
            f'Price table {table} must be JSON or YAML such as {{"date": "2026-11-01", "usd_per_hour": '
            f'{{"ml.g5.xlarge": 1.408}}}}: {" ".join(str(error).split())}.'
        ) from error
    if price is None:
        return None
    if not 0 < price < 10_000:
        raise InputError(f"Price table {table}: {key} is {price}; a price must be between 0 and 10,000 USD.")
    return Price(usd_per_hour=price, source=table.name, date=day.isoformat())

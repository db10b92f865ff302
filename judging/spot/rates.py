"""Interruption rates of spot capacity, from what AWS publishes.

AWS's Spot Instance Advisor (https://aws.amazon.com/ec2/spot/instance-advisor/) gives each instance type and region one
of five bands: the share of spot instances that were reclaimed in the past month. SageMaker publishes no rates of its
own.
"""

from __future__ import annotations

import math

HOURS_PER_MONTH = 730.0
BAND_ENDS_PERCENT = (5.0, 10.0, 15.0, 20.0)
"""Upper ends of the advisor's bands, percent per month: <5 %, 5-10 %, 10-15 %, 15-20 %. The fifth band, >20 %, has no
end."""


def interruptions_per_hour(percent_per_month: float) -> float:
    """Return the rate of one instance of which this share is reclaimed within a month.

    An instance survives a month with probability exp(-730 rate). Raises ValueError outside of 0 to below 100 percent.
    """
    if not 0 <= percent_per_month < 100:
        raise ValueError(f"the share of reclaimed instances must be from 0 to below 100 percent: {percent_per_month}")
    return -math.log1p(-percent_per_month / 100) / HOURS_PER_MONTH


DEFAULT_PER_HOUR = round(interruptions_per_hour(BAND_ENDS_PERCENT[-1]), 4)
"""Rate where nothing better is known: 0.0003 per hour, the end of the band 15-20 %."""

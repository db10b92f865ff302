"""The state of a local job, by hand."""

from __future__ import annotations

from training.services.local.job_folder import with_billing


def test_billing_starts_with_the_download() -> None:
    """Created at 100 s, waited for a core until 160 s, ended at 172.4 s."""
    state = with_billing({"CreationTime": 100.0, "TrainingStartTime": 160.0}, 172.4)
    assert (state["BillableTimeInSeconds"], round(state["BillableSecondsExact"], 6)) == (12, 12.4)
    assert "BillableTimeInSeconds" not in with_billing({"CreationTime": 100.0}, 172.4)

"""Ranks and counts from the variables that launchers set, and settings that differ between hosts."""

from __future__ import annotations

import pytest

from training.job.processes import ranks

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
MPIRUN = {
    f"OMPI_COMM_WORLD_{name}": value
    for name, value in zip(("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"), ("3", "4", "1", "2"), strict=True)
}
ONE_HOST = TORCHRUN | {"RANK": "1", "WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("launcher", "rank", "count", "folder", "interface"),
    [
        (TORCHRUN, 3, 4, "/cache/algo-2", "eth0"),
        (MPIRUN, 3, 4, "/cache/algo-2", "eth0"),
        (ONE_HOST, 1, 2, "/cache", None),
        ({}, 0, 1, "/cache", None),
    ],
)
def test_ranks_and_the_settings_of_a_host_follow_the_launcher(
    monkeypatch: pytest.MonkeyPatch, launcher: dict[str, str], rank: int, count: int, folder: str, interface: str | None
) -> None:
    for name in (*TORCHRUN, *MPIRUN):
        monkeypatch.delenv(name, raising=False)
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    assert (ranks.rank(), ranks.count()) == (rank, count)
    environment = {
        "TORCHINDUCTOR_CACHE_DIR": "/cache",
        "SM_CURRENT_HOST": "algo-2",
        "SM_NETWORK_INTERFACE_NAME": "eth0",
    }
    ranks.configure_host(environment)
    # Each host has a compile cache of its own.
    assert (environment["TORCHINDUCTOR_CACHE_DIR"], environment.get("GLOO_SOCKET_IFNAME")) == (folder, interface)

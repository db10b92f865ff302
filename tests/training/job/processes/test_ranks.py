"""Ranks and counts from the variables that launchers set."""

from __future__ import annotations

import pytest

from processes import ranks


def test_ranks_and_counts_are_read_from_launcher_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ranks.RANK_VARIABLES, *ranks.COUNT_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    assert (ranks.rank(), ranks.count()) == (0, 1)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert (ranks.rank(), ranks.count()) == (3, 8)


TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
MPIRUN = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"} | {
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}


def configured(monkeypatch: pytest.MonkeyPatch, launcher: dict[str, str]) -> dict[str, str]:
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    environment = {
        "TORCHINDUCTOR_CACHE_DIR": "/opt/ml/checkpoints/.compile-cache",
        "SM_CURRENT_HOST": "algo-2",
        "SM_NETWORK_INTERFACE_NAME": "eth0",
    }
    ranks.configure_host(environment)
    return environment


@pytest.mark.parametrize("launcher", [TORCHRUN, MPIRUN])
def test_each_host_has_its_own_compile_cache(monkeypatch: pytest.MonkeyPatch, launcher: dict[str, str]) -> None:
    environment = configured(monkeypatch, launcher)
    assert environment["TORCHINDUCTOR_CACHE_DIR"] == "/opt/ml/checkpoints/.compile-cache/algo-2"
    assert environment["GLOO_SOCKET_IFNAME"] == "eth0"


@pytest.mark.parametrize("launcher", [{}, TORCHRUN | {"RANK": "1", "WORLD_SIZE": "2"}])
def test_processes_on_one_host_share_a_compile_cache(monkeypatch: pytest.MonkeyPatch, launcher: dict[str, str]) -> None:
    environment = configured(monkeypatch, launcher)
    assert environment["TORCHINDUCTOR_CACHE_DIR"] == "/opt/ml/checkpoints/.compile-cache"
    assert "GLOO_SOCKET_IFNAME" not in environment

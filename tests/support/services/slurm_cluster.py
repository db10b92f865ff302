"""A real Slurm cluster on this machine, without systemd: munged, slurmctld and a slurmd for each node."""

from __future__ import annotations

import contextlib
import os
import platform
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import psutil

from tests.support.ports import free_port

UNPACKED = Path(__file__).resolve().parents[3] / ".slurm"
"""Debian's packages, as `make .slurm/.installed` unpacks them. Programs on the PATH are used before these."""
LIBRARIES = UNPACKED / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
SEARCH_PATH = f"{os.environ['PATH']}:/usr/sbin:{UNPACKED / 'usr/bin'}:{UNPACKED / 'usr/sbin'}"

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# A requeued job is held back for as long as credentials last: 120 s, or at least 5.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
{plugin_folder}
# cgroups need systemd. The accounting of jobs and the process tracking of Linux hang without them.
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=64
ReturnToService=2
SlurmdParameters=config_overrides
# A submitted job starts at once, and daemons that die are missed soon.
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1
SlurmctldTimeout=5
SlurmdTimeout={node_timeout_seconds}
MessageTimeout=5
InactiveLimit=0
MinJobAge={minimum_job_age_seconds}
KillWait=5
CompleteWait=0
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""


def slurm_is_installed() -> bool:
    """Return whether the daemons are on the PATH or unpacked."""
    return all(_program(name) for name in ("munged", "slurmctld", "slurmd", "sbatch"))


def _program(name: str) -> str | None:
    """Return the path of a program. Debian's packages name the daemons, when they are only unpacked, `slurmd-wlm`."""
    return shutil.which(name, path=SEARCH_PATH) or shutil.which(f"{name}-wlm", path=SEARCH_PATH)


class SlurmCluster:
    """One cluster in a folder of its own. Several can run at once.

    Each node declares 8 CPUs and 8 GB, so that jobs run beside each other on any machine. Partitions: `cpu` (the
    default), `low` and `high` (which requeues jobs of `low` after 5 s of grace), `short` (at most a minute) and
    `down`.

    Args:
        nodes: number of slurmd daemons, which are named `slurmd-node1` and so on.
        minimum_job_age_seconds: time after which Slurm forgets an ended job.
        node_timeout_seconds: silence after which Slurm takes a node for lost.
    """

    def __init__(self, *, nodes: int = 1, minimum_job_age_seconds: int = 300, node_timeout_seconds: int = 10) -> None:
        self.nodes = [f"node{number}" for number in range(1, nodes + 1)]
        # Sockets have short paths: pytest's own folders are too deep.
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        self._minimum_job_age_seconds = minimum_job_age_seconds
        self._node_timeout_seconds = node_timeout_seconds
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which Slurm's commands reach this cluster."""
        return {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": SEARCH_PATH,
            "LD_LIBRARY_PATH": f"{LIBRARIES}:{LIBRARIES / 'slurm-wlm'}",
        }

    @property
    def daemons(self) -> list[str]:
        return ["munged", "slurmctld", *(f"slurmd-{node}" for node in self.nodes)]

    def __enter__(self) -> SlurmCluster:
        try:
            self._configure()
            for daemon in self.daemons:
                self.start(daemon)
            self._wait(lambda: len(self.run("sinfo", "-hN", "-t", "idle", "-p", "cpu").splitlines()) == len(self.nodes))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _configure(self) -> None:
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))
        plugins = LIBRARIES / "slurm-wlm"
        text = CONFIGURATION.format(
            host=socket.gethostname().split(".")[0],
            user=pwd.getpwuid(os.getuid()).pw_name,
            folder=self.folder,
            controller_port=free_port(),
            plugin_folder=f"PluginDir={plugins}" if plugins.is_dir() else "",
            node_timeout_seconds=self._node_timeout_seconds,
            minimum_job_age_seconds=self._minimum_job_age_seconds,
        )
        for node in self.nodes:
            text += (
                f"NodeName={node} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={free_port()} CPUs=8 "
                "RealMemory=8000 State=UNKNOWN\n"
            )
        nodes = ",".join(self.nodes)
        for partition in (
            "cpu Default=YES",
            "low PriorityTier=1 GraceTime=5",
            "high PriorityTier=9 PreemptMode=OFF",
            "short MaxTime=1",
            "down State=DOWN",
        ):
            text += f"PartitionName={partition} Nodes={nodes}\n"
        (self.folder / "slurm.conf").write_text(text)

    def start(self, daemon: str) -> None:
        """Start a daemon of `daemons`, in a process group of its own. It dies with this process."""
        node = daemon.removeprefix("slurmd-")
        arguments = {
            "munged": [
                *("munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key"),
                *(f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid"),
                *(f"--seed-file={self.folder}/munged.seed", f"--log-file={self.folder}/munged.log"),
            ],
            "slurmctld": ["slurmctld", "-D"],
        }.get(daemon, ["slurmd", "-D", "-N", node, "-d", _program("slurmstepd") or "slurmstepd"])
        command = ["setpriv", "--pdeathsig=KILL", _program(arguments[0]) or arguments[0], *arguments[1:]]
        with (self.folder / f"{daemon}.out").open("ab") as log:
            self._processes[daemon] = subprocess.Popen(
                command,
                env=os.environ | self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if daemon == "munged":
            self._wait((self.folder / "munge.socket").exists)
        if daemon == "slurmctld":
            self._wait(lambda: self._is_up("scontrol", "ping"))

    def kill(self, daemon: str) -> None:
        """Kill a daemon of `daemons` with SIGKILL. Steps that run stay."""
        process = self._processes.pop(daemon)
        process.kill()
        process.wait()

    def run(self, *command: str) -> str:
        """Run one of Slurm's commands, and return what it prints."""
        done = subprocess.run(command, env=os.environ | self.environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def drain(self, node: str = "node1") -> None:
        """Let a node take no more jobs."""
        self.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")

    def resume(self, node: str = "node1") -> None:
        """Let a drained node take jobs again."""
        self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def wait_until_saved(self, job: str) -> None:
        """Wait, at most 5 s, until slurmctld has saved a job's state: a kill loses what it has not saved."""
        # It saves only after a change.
        now = time.time()
        self.run("scontrol", "update", f"JobId={job}", "AdminComment=saved")
        saved = self.folder / "state" / "job_state"
        self._wait(lambda: saved.exists() and saved.stat().st_mtime > now)

    def wait_until_idle(self) -> None:
        """Wait until no job is queued, runs or completes."""
        self._wait(lambda: not self.run("squeue", "-h", "-t", "PD,R,CG,CF,S"))

    def stop(self) -> None:
        """Kill the daemons and the processes of all jobs, and delete the folder."""
        for daemon in list(self._processes):
            self.kill(daemon)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                environment = process.environ()
                # A slurmstepd clears its environment. A test's own programs have SLURM_CONF too.
                if process.cwd() == str(self.folder) or (
                    environment.get("SLURM_CONF") == self.environment["SLURM_CONF"] and "SLURM_JOB_ID" in environment
                ):
                    process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_up(self, *command: str) -> bool:
        return not subprocess.run(command, env=os.environ | self.environment, capture_output=True).returncode

    def _wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            logs = "".join(f"== {path.name}\n{path.read_text()}" for path in self.folder.glob("*.out"))
            assert time.monotonic() < deadline, logs
            time.sleep(0.05)

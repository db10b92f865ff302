"""Let waiting OpenMP threads spin, or block so that a late thread gets a CPU.

An operation ends when its last thread finishes. libgomp (GCC's OpenMP), which PyTorch uses on Linux, lets the others
spin for a few milliseconds before they block. That is fastest on free CPUs. If another process has the last thread's
CPU, however, spinning threads hold the CPUs that it could use. No setting changes this once OpenMP has started, but
while a process has more OpenMP threads than CPUs, its waiting threads block almost at once
(https://gcc.gnu.org/onlinedocs/libgomp/GOMP_005fSPINCOUNT.html). So we add threads that do no work.

An operation keeps its number of threads, and so the order in which its sums are added.
"""

import ctypes
import os
import threading
from pathlib import Path
from typing import Optional

import torch


class ThreadWaits:
    """The waits of this process's threads, which spin at first."""

    def __init__(self) -> None:
        self._library = _openmp()
        self._idle: Optional[_IdleThreads] = None

    @property
    def can_block(self) -> bool:
        """True if PyTorch uses libgomp."""
        return self._library is not None

    @property
    def are_blocking(self) -> bool:
        """True if waiting threads block."""
        return self._idle is not None

    def block(self, blocking: bool) -> None:
        """Let waiting threads block, or let them spin again. Takes less than a millisecond."""
        if blocking == self.are_blocking or self._library is None:
            return
        if self._idle:
            self._idle.end()
        self._idle = _IdleThreads(self._library) if blocking else None


class _IdleThreads:
    """Further OpenMP threads, so that there are more than CPUs. Their first one waits until `end` is called."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library, self._ready, self._end = library, threading.Event(), threading.Event()
        # OpenMP ends the process if it cannot start a thread, so there are no more than needed. It does not count the
        # first thread of this group, which is ours.
        missing = len(os.sched_getaffinity(0)) + 1 - torch.get_num_threads()
        self._count = max(missing, 1) + 1
        self._owner = threading.Thread(target=self._run, name="idle-threads", daemon=True)
        self._owner.start()
        self._ready.wait()

    def end(self) -> None:
        self._end.set()
        self._owner.join()

    def _run(self) -> None:
        # Each thread calls free(NULL), which does nothing, and then waits for further work.
        nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)
        try:
            self._library.GOMP_parallel(nothing, None, self._count, 0)
        finally:
            self._ready.set()
        self._end.wait()


def _openmp() -> Optional[ctypes.CDLL]:
    """Return the library that PyTorch has loaded, or None with another OpenMP."""
    bundled = sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"))
    for name in (*map(str, bundled), "libgomp.so.1"):
        try:
            library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
            library.GOMP_parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
            library.GOMP_parallel.restype = None
            return library
        except (OSError, AttributeError):
            continue
    return None

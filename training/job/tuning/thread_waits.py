"""Waits of OpenMP's threads for each other: in a loop, or blocked, so that other processes get their CPUs.

Every operation ends when its last thread has ended. GCC's OpenMP, which PyTorch uses on Linux, lets the others wait in
a loop of some milliseconds before they block. That is fastest on free CPUs. If another process has the CPU of the last
thread, however, the loops keep the remaining CPUs from it. No setting changes this once OpenMP has started, but while
a process has more threads of OpenMP than CPUs, its threads block almost at once
(https://gcc.gnu.org/onlinedocs/libgomp/GOMP_005fSPINCOUNT.html). So we add idle threads.

The number of threads of an operation stays the same, and so does the order in which its sums are added.
"""

import ctypes
import os
import threading
from pathlib import Path
from typing import Optional

import torch


class ThreadWaits:
    """The waits of this process's threads. They begin as waits in a loop."""

    def __init__(self) -> None:
        self._library = _openmp()
        self._idle: Optional[_IdleThreads] = None

    @property
    def can_block(self) -> bool:
        """True if PyTorch uses GCC's OpenMP."""
        return self._library is not None

    @property
    def are_blocking(self) -> bool:
        """True if waiting threads leave their CPUs to others."""
        return self._idle is not None

    def block(self, blocking: bool) -> None:
        """Let threads block while they wait, or let them wait in a loop again. Takes less than a millisecond."""
        if blocking == self.are_blocking or self._library is None:
            return
        if self._idle:
            self._idle.end()
        self._idle = _IdleThreads(self._library) if blocking else None


class _IdleThreads:
    """More threads of OpenMP than there are CPUs. They belong to a thread that waits for the end."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library, self._ready, self._end = library, threading.Event(), threading.Event()
        self._owner = threading.Thread(target=self._run, name="idle-threads", daemon=True)
        self._owner.start()
        self._ready.wait()

    def end(self) -> None:
        self._end.set()
        self._owner.join()

    def _run(self) -> None:
        # Each thread calls free(NULL), which does nothing, and then waits for further work.
        nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)
        self._library.GOMP_parallel(nothing, None, len(os.sched_getaffinity(0)) + 1, 0)
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

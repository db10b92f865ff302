"""The fixtures of the service of this machine."""

from __future__ import annotations

from tests.training.services.local.conftest import _real_processes as _real_processes
from tests.training.services.local.conftest import harness as harness

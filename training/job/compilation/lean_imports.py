"""Set the environment of torch and transformers, and block packages that training does not use. Import it before them.

transformers imports each of these packages if it is installed. That took 1.1 of 3.1 s on a laptop-sized machine, and
start-up is billed. A `None` in `sys.modules` makes a package look absent to transformers. Jobs with an adapter import
peft later (`weights/adapters.py`).
"""

import os
import sys

UNUSED = ("tensorflow", "jax", "flax", "sklearn", "scipy", "datasets", "peft")

for name in UNUSED:
    sys.modules.setdefault(name, None)  # type: ignore[arg-type]

if "OMP_WAIT_POLICY" not in os.environ:
    # A waiting OpenMP thread spins before it blocks (GCC's OpenMP, GOMP_SPINCOUNT). By default it spins for
    # milliseconds, and a job next to a busy process may run at a thirtieth of its speed: the spinning threads hold the
    # CPU that a late thread needs. This is about 1 ms, longer than most pauses between two operations. A tenth of it
    # doubles the speed next to a busy process, but costs a job that has its cores for itself 7 % (LoRA) to 13 % (T5).
    os.environ.setdefault("GOMP_SPINCOUNT", "30000")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

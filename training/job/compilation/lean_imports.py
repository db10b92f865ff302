"""Block packages that training does not use. Import this module before transformers.

transformers imports each of these packages if it is installed. That took 1.1 of 3.1 s on a laptop-sized machine, and
start-up is billed. A `None` in `sys.modules` makes a package look absent to transformers.
"""

import os
import sys

UNUSED = ("tensorflow", "jax", "flax", "sklearn", "scipy", "datasets")

for name in UNUSED:
    sys.modules.setdefault(name, None)  # type: ignore[arg-type]

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

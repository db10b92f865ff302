"""Installs the meter in a Python process of a job, and then runs the environment's own `sitecustomize`, if it has one.

Python imports a module of this name at its start. Its folder is the first one on PYTHONPATH.
"""

import contextlib
import importlib
import os
import runpy
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
if _FOLDER in sys.path:
    sys.path.remove(_FOLDER)  # so that nothing else of this folder can be imported
try:
    runpy.run_path(os.path.join(_FOLDER, "meter.py"), run_name="trainfare_meter")["install"](
        os.environ["TRAINFARE_METER_DIR"]
    )
except Exception as error:
    sys.stderr.write("trainfare: the meter could not be installed: %r\n" % error)

_own = sys.modules.pop("sitecustomize", None)
with contextlib.suppress(ImportError):
    importlib.import_module("sitecustomize")
if _own is not None:
    sys.modules.setdefault("sitecustomize", _own)

"""Programs in the persistent cache of Neuron's compiler, which is a folder or a prefix in S3.

The cache has a folder for each version of the compiler and a folder in it for each program, which is complete once it
has a `model.neff`: `neuronxcc-2.8.0.25+a3ad0f342/MODULE_198775565831884870+d41d8cd9/model.neff`. Source: AWS Neuron
documentation, "Neuron Persistent Cache". Neuron's compiler itself reads and writes the cache. This module lists it.
"""

import os
from pathlib import Path
from typing import FrozenSet, Mapping, Set
from urllib.parse import urlparse

CACHE_VARIABLE = "NEURON_COMPILE_CACHE_URL"
"""Variable with the cache's folder or S3 prefix. The launcher sets it."""
DEFAULT_CACHE = "/var/tmp/neuron-compile-cache"
PROGRAM_FILE = "model.neff"


def programs(environment: Mapping[str, str] = os.environ) -> FrozenSet[str]:
    """Return the names of the cache's programs; empty if the cache does not exist or cannot be listed."""
    place = environment.get(CACHE_VARIABLE) or DEFAULT_CACHE
    try:
        return frozenset(_in_s3(place) if place.startswith("s3://") else _in_folder(Path(place)))
    except Exception:  # A job must not fail because it cannot tell a warm cache from a cold one.
        return frozenset()


def state(before: FrozenSet[str], after: FrozenSet[str], programs_of_job: int) -> str:
    """Return cold, warm or partial: whether none, all or some of a job's programs came from the cache.

    Jobs that compile at the same time share the cache, so programs of others may count as this job's.
    """
    compiled = len(after - before)
    if not compiled:
        return "warm" if before and programs_of_job else "cold"
    return "partial" if before and compiled < programs_of_job else "cold"


def _in_folder(folder: Path) -> Set[str]:
    return {file.parent.name for file in folder.glob(f"*/*/{PROGRAM_FILE}")}


def _in_s3(uri: str) -> Set[str]:
    from compilation.stored_programs import s3_client

    place = urlparse(uri)
    prefix = place.path.strip("/") + "/"
    pages = s3_client().get_paginator("list_objects_v2").paginate(Bucket=place.netloc, Prefix=prefix)
    keys = [str(each["Key"]) for page in pages for each in page.get("Contents", ())]
    return {key.split("/")[-2] for key in keys if key.endswith(f"/{PROGRAM_FILE}")}

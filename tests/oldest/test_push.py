"""With the oldest versions, a job also pushes to the Hub and hides the token."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.hub.server import Hub, serving
from tests.support.job.job_process import Job

pytestmark = pytest.mark.oldest

TOKEN = "hf_QwErTz1234567890secret"


@pytest.mark.parametrize("refuses", ["", "/commit/", "/info/lfs/"])
def test_a_push_or_its_refusal_is_reported(job_of: Callable[..., Job], oldest_python: str, refuses: str) -> None:
    with serving(Hub(token=TOKEN, refuses=refuses)) as hub:
        job = job_of("classification", "job")
        variables = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": TOKEN}
        job.environment |= variables
        ended = job.run(python=[oldest_python], push_to_hub="someone/a-model", max_steps=2, max_length=24)
    push = ended.result["hub"]
    if refuses:
        assert "Bearer (hidden) may not write" in push["failure"]
    else:
        assert "failure" not in push, push
        assert push["url"] == f"{hub.url}/someone/a-model"
        assert {"README.md", "config.json", "pytorch_model.bin", "tokenizer.json"} <= set(hub.files)
    contents = [path.read_bytes() for path in job.folder.rglob("*") if path.is_file()] + [ended.output.encode()]
    spellings = [spelling.rpartition(" ")[2].encode() for spelling in hub.credentials]
    assert not [content for content in contents for spelling in spellings if spelling in content]

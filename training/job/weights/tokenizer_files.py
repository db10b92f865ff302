"""The tokenizer's files, put beside the trained model. Training itself needs no tokenizer."""

import shutil
from pathlib import Path
from typing import Optional

PATTERNS = ("tokenizer*", "vocab.*", "merges.txt", "special_tokens_map.json", "added_tokens.json", "*.model", "spiece*")


def save_tokenizer(location: str, revision: Optional[str], folder: Path) -> None:
    """Copy the tokenizer of a model folder, or fetch that of a model on the Hub, into `folder`."""
    if not Path(location).is_dir():
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(location, revision=revision or "main").save_pretrained(str(folder))
        return
    # Loading and saving it again would take a second and might rewrite it.
    for pattern in PATTERNS:
        for file in Path(location).glob(pattern):
            if file.is_file():
                shutil.copy(str(file), str(folder / file.name))

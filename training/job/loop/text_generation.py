"""Generate the texts that a scorer needs in each evaluation, by all processes, in the evaluation's precision."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import transformers

from training.job.processes import ranks
from training.job.settings.job_settings import Settings
from training.job.tasks.task import TextScorer


class TextGenerator:
    """Generates for the prompts of a scorer: the same texts in the same order in every process."""

    def __init__(self, scorer: TextScorer, settings: Settings) -> None:
        """Take the prompts, and load the tokenizer, which decodes."""
        self._scorer, self._pad_token = scorer, settings.evaluated.metadata.pad_token_id
        self._batch_size = settings.arguments.eval_batch_size
        revision = None if settings.pretrained.is_folder else settings.arguments.model_revision or "main"
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(settings.model_location, revision=revision)

    def run(
        self,
        model: transformers.PreTrainedModel,
        device: torch.device,
        after_batch: Callable[[], None],
        synced_gpus: bool,
    ) -> None:
        """Generate with the present weights, and pass the texts to the scorer.

        Prompts are dealt out by length, so that all processes have equal work. All have the same number of batches:
        `after_batch`, and the layers of a sharded model, exchange between them. A process without a prompt of its own
        in a batch repeats one. With `synced_gpus`, all processes generate equally many tokens for a batch, as the
        layers of a sharded model require.
        """
        prompts, settings = self._scorer.prompts, dict(self._scorer.generation_settings)
        if synced_gpus and ranks.count() > 1:
            settings["synced_gpus"] = True
        order = sorted(range(len(prompts)), key=lambda at: (len(prompts[at]), at))
        size, own = self._batch_size, order[ranks.rank() :: ranks.count()]
        made: list[tuple[int, str]] = []
        for start in range(0, len(order[:: ranks.count()]), size):
            batch = own[start : start + size]
            rows = generate(model, [prompts[at] for at in batch or order[:1]], self._pad_token, settings, device)
            made += zip(batch, self._tokenizer.batch_decode(rows, skip_special_tokens=True))
            after_batch()
        texts = dict(pair for part in ranks.gather(made) for pair in part)
        self._scorer.take_texts([texts[at] for at in range(len(prompts))])


def generate(
    model: Any, prompts: Sequence[Sequence[int]], pad_token: int, settings: dict[str, Any], device: Any
) -> list[list[int]]:
    """Return the new tokens of each prompt, as one padded batch. `settings` have the names of transformers' `generate`.

    A decoder's prompts are padded on the left, so that new tokens follow them directly. An encoder's are padded on the
    right, because the positions of models such as BART count from the first token of the row.
    """
    is_encoder_decoder = bool(model.config.is_encoder_decoder)
    width = max(map(len, prompts))
    ids = torch.full((len(prompts), width), pad_token)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        span = slice(len(prompt)) if is_encoder_decoder else slice(width - len(prompt), width)
        ids[row, span], mask[row, span] = torch.as_tensor(prompt), 1
    defaults: dict[str, Any] = {"use_cache": True, "pad_token_id": pad_token, "do_sample": False}
    output = model.generate(input_ids=ids.to(device), attention_mask=mask.to(device), **{**defaults, **settings})
    # An encoder-decoder's output starts with the decoder's start token.
    rows: list[list[int]] = output[:, 1 if is_encoder_decoder else width :].tolist()
    return rows

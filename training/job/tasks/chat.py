"""Chat: train on the assistant's answers in conversations, in the format of the tokenizer's chat template.

`chat_template.py` finds the answers' tokens. Several conversations fill a row, each as a whole.
"""

import json
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.job.data import IGNORED_LABEL, SEGMENTS
from training.job.processes.reporting import BadData
from training.job.tasks.causal_lm import CausalLM, TokenLoss
from training.job.tasks.chat_template import Conversation, Message, Template, read_template, stop_tokens, template_of
from training.job.tasks.checks import MissingValue, checked_list, checked_text, from_json, nearest, short_text
from training.job.tasks.inputs import BadInputs, EncodedInput, Example, Rule, TokenRow
from training.job.tasks.task import (
    LOSS,
    ColumnNames,
    Encoded,
    Encoder,
    LoadedModel,
    Metric,
    Option,
    Row,
    Scorer,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from training.job.data.channels import Channel, ChannelMetadata
    from training.job.data.padding import Batch
    from training.job.weights.pretrained import Pretrained

ROLES = ("system", "user", "assistant")
KEYS = {"role", "from"}
SHAREGPT_ROLES = {"human": "user", "gpt": "assistant"}
"""Roles of ShareGPT's messages `{"from": ..., "value": ...}`."""
ANSWERS = "answers"
"""Column of the channel with the first token of each answer and the token after it: start, end, start, end ..."""
TEMPLATE, TEMPLATE_FILE = "chat_template", "chat_template.jinja"
STOP_TOKEN = "stop_token"
SAMPLES_FILE = "sampled_prompts.parquet"
"""File in the validation channel with the prompts for which evaluations generate."""
SAMPLE_TOKENS = 64
"""Most tokens that an evaluation generates for a prompt."""


class Chat(CausalLM):
    """Conversations of a user and an assistant. Every answer of the assistant is trained and scored."""

    name = "chat"
    other_names = ("sft", "messages", "conversations", "conversational", "instruction-tuning")
    row = "conversation"
    without_rows = "no conversations"
    group = "conversation"
    left_out = "left out, because max_length cuts off their whole answer"
    usual_columns: Mapping[tuple[str, ...], str] = {
        ("messages",): "task: chat",
        ("conversations",): "task: chat and data.columns.messages: conversations",
        ("prompt", "completion"): "task: chat and data.columns.prompt: prompt",
    }
    options: Mapping[str, Option] = {
        **CausalLM.options,
        TEMPLATE: Option(
            str,
            None,
            "Chat: file with a Jinja template, or `chatml`, in place of the tokenizer's own chat template.",
            requires_task=True,
            read=read_template,
        ),
        "train_on_prompt": Option(
            bool,
            False,
            "Chat: train on all tokens of a conversation (true), or only on the assistant's (false, None). Evaluations "
            "score the assistant's.",
            requires_task=True,
        ),
        "sampled_answers": Option(
            int,
            4,
            "Chat: validation rows (None: 4) for which each evaluation generates an answer of at most 64 tokens, for "
            "people to read.",
            {"ge": 0, "le": 20},
            requires_task=True,
        ),
    }
    training_options = ("packing",)
    evaluated_options = (TEMPLATE,)
    list_columns = (ANSWERS, SEGMENTS)
    metrics = (
        LOSS,
        Metric("eval_token_accuracy", "token accuracy", "fraction", higher_is_better=True, best=1.0),
        CausalLM.metrics[1],
    )
    texts_table = "generated_answers.json"
    inputs = ("messages",)
    names_input = True
    answer_parameters = (("max_new_tokens", "long", 256), ("do_sample", "boolean", False))
    example: Mapping[str, str] = {"messages": "Winter is coming. What should I pack?"}
    parameter_rules: Mapping[str, Rule] = {
        name: rule for name, rule in CausalLM.parameter_rules.items() if name != "return_full_text"
    }
    new_tokens = 256
    returns_prompt = False

    def fits(self, config: Mapping[str, Any]) -> bool:
        """Return whether a saved configuration is of a model that this task trained."""
        return config.get("trainfare_task") == self.name and super().fits(config)

    def columns(self, names: ColumnNames) -> dict[str, str]:
        if names.prompt:
            return {names.prompt: "object", names.completion: "object"}
        return {names.messages: "object"}

    def check_options(self, options: Any) -> None:
        """Raise ValueError for padding `none` with packed rows, and for a template that cannot be read."""
        if options.padding == "none" and options.packing is not False:
            raise ValueError(
                "padding none cannot be combined with packing, which leaves little padding: use padding longest, or "
                "packing: false"
            )
        read_template(options.chat_template)

    def read(self, number: int, place: object, values: Sequence[Any], names: ColumnNames) -> Row:
        """Check the messages. Of a prompt and a completion, only the completion's answers are trained."""
        first = 0
        if names.prompt:
            prompt = checked_messages(place, names.prompt, values[0], "user")
            messages = [*prompt, *checked_messages(place, names.completion, values[1], "assistant")]
            first, column = len(prompt), names.completion
        else:
            column = names.messages
            messages = checked_messages(place, column, values[0])
        roles = [message["role"] for message in messages]
        if "assistant" not in roles[first:]:
            raise BadData(f"{place}: {column} has no message of the assistant, so there is nothing to learn")
        if roles[-1] != "assistant":
            raise BadData(
                f"{place}: {column} ends with the {roles[-1]}: remove the messages after the assistant's last answer"
            )
        if roles[0] == "assistant":
            raise BadData(f"{place}: {column} begins with the assistant: a message of the user must precede its answer")
        return Row(
            number,
            ("\n".join(f"{each['role']}: {each['content']}" for each in messages),),
            detail=(messages, first, place),
        )

    def encoder(self, tokenizer: Any, options: Mapping[str, Any], for_scoring: bool) -> Encoder:
        """Render each conversation, cut it to `max_length`, and pack several into a row, each as a whole.

        Conversations without an answer within `max_length` are left out. For scoring, each is a row of its own.
        """
        import pyarrow as pa

        template, length = Template(tokenizer, options[TEMPLATE]), options["max_length"]
        packs, trains_all = (options[name] and not for_scoring for name in ("packing", "train_on_prompt"))
        samples = options["sampled_answers"] if for_scoring else 0
        metadata = {STOP_TOKEN: template.stop, **({TEMPLATE: options[TEMPLATE]} if options[TEMPLATE] else {})}

        def encode(rows: Sequence[Row], classes: Sequence[Sequence[int]]) -> Encoded:
            nonlocal samples
            whole = template.conversations([row.detail for row in rows])
            cut = [each.cut(length) for each in whole]
            kept = [at for at, each in enumerate(cut) if each.answers]
            room = length - min(SAMPLE_TOKENS, length // 4)
            fitting = (at for at in kept if len(whole[at].ids) <= length and whole[at].answers[-1][0] <= room)
            sampled = list(islice(fitting, samples))
            samples -= len(sampled)
            used = [cut[at].with_all_tokens() if trains_all else cut[at] for at in kept]
            # Without packing, each fills a block.
            blocks = best_fit([len(each.ids) if packs else length for each in used], length)
            made = [_joined([used[at] for at in block]) for block in blocks]
            columns = {
                name: pa.array([row[at] for row in made], pa.list_(pa.int32()))
                for at, name in enumerate(("input_ids", ANSWERS, SEGMENTS))
            }
            tables = {SAMPLES_FILE: _samples([(rows[at], cut[at]) for at in sampled])} if for_scoring else None
            cut_rows = sum(len(each.ids) > length for each in whole)
            return Encoded(columns, cut_rows, tables, len(rows) - len(kept), metadata)

        return encode

    def no_rows(self, options: Mapping[str, Any], for_scoring: bool) -> str:
        return f"have no answer within max_length {options['max_length']}; increase max_length"

    def load_model(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> Any:
        """Return the model. Its configuration says that it chats."""
        model = super().load_model(pretrained, metadata)
        model.config.trainfare_task = self.name
        return model

    def targets(self, batch: "Batch") -> "dict[str, np.ndarray]":
        """Return the tokens of the answers as labels: the models shift the labels. Other tokens have none."""
        import numpy as np

        labels = np.full_like(batch.input_ids, IGNORED_LABEL)
        for line, ids, row, first in zip(labels, batch.input_ids, batch.rows, batch.starts):
            for start, end in zip(row[ANSWERS][::2] + first, row[ANSWERS][1::2] + first):
                line[start:end] = ids[start:end]
        return {"labels": labels}

    def reduce_predictions(self, predictions: Any, labels: Any) -> Any:
        """Return each row's summed loss, number of predicted tokens and number of right ones, rows x 3."""
        import torch

        logits = predictions[0] if isinstance(predictions, tuple) else predictions
        right = [
            ((row[:-1].argmax(-1) == label[1:]) & (label[1:] != IGNORED_LABEL)).sum()
            for row, label in zip(logits, labels)
        ]
        sums = super().reduce_predictions(predictions, labels)
        return torch.cat([sums, torch.stack(right).to(sums.dtype)[:, None]], dim=1)

    def scorer(self, channel: "Channel") -> Scorer:
        return AnswerScorer(channel)

    def write_files(self, model: Any, metadata: "ChannelMetadata", folder: Path) -> None:
        """Add the chat template to a saved model, and the token that ends a turn to those that end a text."""
        if TEMPLATE in metadata.options:
            (folder / TEMPLATE_FILE).write_text(metadata.options[TEMPLATE], "utf-8")
        file = folder / "generation_config.json"
        if file.is_file():
            config = json.loads(file.read_text("utf-8"))
            config["eos_token_id"] = stop_tokens(config.get("eos_token_id"), metadata.options[STOP_TOKEN])
            file.write_text(json.dumps(config, indent=2) + "\n", "utf-8")

    def input_value(self, place: object, column: str, value: Any) -> Any:
        """Return the messages of a row to answer, or a text."""
        return checked_messages(place, column, value, "user")

    def read_inputs(self, inputs: object, arguments: Mapping[str, Any] | None) -> list[Example]:
        """Return the conversations to answer: a list of messages, a text of the user, or a list of these."""
        if inputs == []:
            raise BadInputs("inputs is an empty list: give at least one message")
        is_one = not isinstance(inputs, list) or all(isinstance(each, dict) for each in inputs)
        options = self.checked_parameters(arguments)
        examples = []
        values: list[object] = inputs if isinstance(inputs, list) and not is_one else [inputs]
        for at, value in enumerate(values):
            location = "inputs" if is_one else f"inputs[{at}]"
            if not isinstance(value, (str, list)):
                raise BadInputs(f"{location} must be a list of messages or a text, not {short_text(value)}")
            # A text stays one, even if it looks like messages.
            value = [{"role": "user", "content": value}] if isinstance(value, str) else value
            try:
                messages = checked_messages(location, "messages", value)
            except BadData as error:
                raise BadInputs(str(error)) from error
            if (role := messages[-1]["role"]) != "user":
                raise BadInputs(f"{location} ends with the {role}: the last message must be the user's, so remove it")
            examples.append(Example(location, messages[-1]["content"], options=options, detail=messages))
        return examples

    def encode_inputs(self, loaded: LoadedModel, examples: Sequence[Example]) -> list[EncodedInput]:
        """Render and tokenize the conversations. Raises `BadInputs` for one that leaves no room for an answer."""
        try:
            made = template_of(loaded.tokenizer).tokens([(each.detail, True) for each in examples])
        except BadData as error:
            raise BadInputs(str(error)) from error
        for example, ids in zip(examples, made):
            self.check_room(loaded, example, len(ids))
        return [EncodedInput(each, (TokenRow(ids, None),)) for each, ids in zip(examples, made)]

    def generation_settings(self, loaded: LoadedModel) -> dict[str, Any]:
        """Return the tokens that end an answer."""
        ends = loaded.model.generation_config.eos_token_id
        return {"eos_token_id": stop_tokens(ends, template_of(loaded.tokenizer).stop)}


def checked_messages(place: object, column: str, value: Any, role_of_text: str = "") -> list[Message]:
    """Return messages with a role and a text each. Raises `BadData`.

    With `role_of_text`, the value may also be a text, which is one message of this role.
    """
    # A text may be JSON, but not of messages.
    parsed = from_json(value)
    are_messages = isinstance(parsed, list) and all(isinstance(each, dict) and {*each} & KEYS for each in parsed)
    if role_of_text and isinstance(value, str) and not are_messages:
        return [{"role": role_of_text, "content": checked_text(place, column, value)}]
    messages = checked_list(place, column, value)
    if not messages:
        raise MissingValue(f"{place}: column {column!r} is an empty list: a conversation needs messages")
    return [_message(place, f"{column}[{at}]", each) for at, each in enumerate(messages)]


def _message(place: object, name: str, value: Any) -> Message:
    if not isinstance(value, dict):
        raise BadData(f"{place}: {name} must be an object with 'role' and 'content', not {short_text(value)}")
    if "role" not in value and "from" in value:
        value = {"role": SHAREGPT_ROLES.get(str(value["from"]), value["from"]), "content": value.get("value")}
    role, content = value.get("role"), value.get("content")
    if role not in ROLES:
        hint = nearest(str(role), ROLES)
        raise BadData(f"{place}: {name}.role is {short_text(role)}: it must be one of {', '.join(ROLES)}.{hint}")
    if value.get("tool_calls"):
        raise BadData(f"{place}: {name} has tool_calls, which are not supported: write the call into the content")
    if isinstance(content, list):
        raise BadData(f"{place}: {name}.content is a list of parts: join their texts; images are not supported")
    return {"role": role, "content": checked_text(place, f"{name}.content", content, may_be_blank=role == "system")}


def _joined(conversations: Sequence[Conversation]) -> tuple[list[int], list[int], list[int]]:
    """Return tokens, flat answers and lengths of a row that holds the conversations one after the other."""
    ids: list[int] = []
    answers: list[int] = []
    for each in conversations:
        answers += [at + len(ids) for span in each.answers for at in span]
        ids += each.ids
    return ids, answers, [len(each.ids) for each in conversations]


def best_fit(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Divide rows among blocks of at most `room` tokens, and return the numbers of each block's rows.

    The longest come first, each into the block that it fills best (best fit decreasing; Johnson 1973).
    """
    blocks: list[list[int]] = []
    left: list[tuple[int, int]] = []  # room left and number of each block, ascending
    for row in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        at = bisect_left(left, (lengths[row], -1))
        free, block = left.pop(at) if at < len(left) else (room, len(blocks))
        if block == len(blocks):
            blocks.append([])
        blocks[block].append(row)
        insort(left, (free - lengths[row], block))
    return blocks


def _samples(chosen: Sequence[tuple[Row, Conversation]]) -> "dict[str, pa.Array]":
    """Return the table of prompts for which evaluations generate, with the data's answers."""
    import pyarrow as pa

    messages = [row.detail[0] for row, _ in chosen]
    return {
        "row": pa.array([row.number for row, _ in chosen], pa.int64()),
        "prompt": pa.array([each[-2]["content"] for each in messages], pa.string()),
        "answer": pa.array([each[-1]["content"] for each in messages], pa.string()),
        "ids": pa.array([each.ids[: each.answers[-1][0]] for _, each in chosen], pa.list_(pa.int32())),
    }


class AnswerScorer(TokenLoss):
    """Loss, perplexity and token accuracy of the answers, and some generated answers for people to read."""

    def __init__(self, channel: "Channel") -> None:
        from training.job.data.channels import read_texts

        super().__init__(channel.rows.numbers.argsort())
        file, stop = channel.folder / SAMPLES_FILE, channel.metadata.options[STOP_TOKEN]
        names = ("row", "prompt", "answer", "ids")
        self._samples = list(zip(*read_texts(file, names)))
        self.prompts = [ids for *_, ids in self._samples]
        longest = max(map(len, self.prompts), default=0)
        new_tokens = min(SAMPLE_TOKENS, channel.metadata.max_length - longest)
        self.generation_settings = {"max_new_tokens": new_tokens, "eos_token_id": stop}
        self._texts: list[str] = []

    def take_texts(self, texts: list[str]) -> None:
        self._texts = texts

    def __call__(self, prediction: Any) -> dict[str, float]:
        tokens, right = prediction.predictions.astype("float64").sum(axis=0)[1:]
        return {**super().__call__(prediction), "token_accuracy": float(right / tokens)}

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        names = ("row", "prompt", "answer")
        rows = [{**dict(zip(names, each)), "generated": text} for each, text in zip(self._samples, self._texts)]
        return {Chat.texts_table: rows} if rows else {}

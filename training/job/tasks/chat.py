"""Chat: train on the assistant's answers in conversations, in the format of the tokenizer's chat template.

The template writes a conversation as one text. The messages before an answer, rendered with the generation prompt, must
be a prefix of it. What follows, up to the next message, is the answer: it includes the token that ends the turn, and
comes after the same tokens as in a request.
"""

import json
from bisect import bisect_left, insort
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from training.job.data import SEGMENTS
from training.job.processes.reporting import BadData
from training.job.tasks.causal_lm import CausalLM, TokenLoss
from training.job.tasks.checks import checked_list, checked_text, from_json, nearest, short_text
from training.job.tasks.inputs import BadInputs, EncodedInput, Example, Rule, TokenRow
from training.job.tasks.task import (
    IGNORED_LABEL,
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

Message = Dict[str, str]
"""`{"role": ..., "content": ...}`."""
ROLES = ("system", "user", "assistant")
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

TEMPLATES = {
    "chatml": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
    "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
}
"""Templates that can be named."""


def read_template(value: Optional[str]) -> Optional[str]:
    """Return the template of a field's value: a name, or a file. Raises ValueError."""
    if value is None or value in TEMPLATES:
        return TEMPLATES.get(value or "")
    try:
        return Path(value).expanduser().read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        names = " or ".join(TEMPLATES)
        raise ValueError(f"chat_template {value!r} cannot be read: {reason}; it must be {names}, or a file") from error


class Chat(CausalLM):
    """Conversations of a user and an assistant. Every answer of the assistant is trained and scored."""

    name = "chat"
    row = "conversation"
    without_rows = "no conversations"
    group = "conversation"
    left_out = "left out, because max_length cuts off their whole answer"
    usual_columns: Mapping[Tuple[str, ...], str] = {
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
            "Chat: train on all tokens of a conversation, not only on the assistant's. Evaluations score its answers.",
        ),
        "sampled_answers": Option(
            int,
            4,
            "Chat: validation rows for which each evaluation generates an answer, of at most 64 tokens, for people to "
            "read.",
            {"ge": 0, "le": 20},
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
    inputs = ("messages",)
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

    def columns(self, names: ColumnNames) -> Dict[str, str]:
        """Return the column of messages, or the columns of prompt and completion."""
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
            sampled = [at for at in kept if cut[at].answers[-1][0] <= room][:samples]
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
        """Return the end of the sentence about conversations that make no row."""
        return f"have no answer within max_length {options['max_length']}; increase max_length"

    def load_model(self, pretrained: "Pretrained", metadata: "ChannelMetadata") -> Any:
        """Return the model. Its configuration says that it chats."""
        model = super().load_model(pretrained, metadata)
        model.config.trainfare_task = self.name
        return model

    def targets(self, batch: "Batch") -> "Dict[str, np.ndarray]":
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
        """Return the scorer of reduced predictions, which also generates some answers."""
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

    def read_inputs(self, inputs: object, arguments: Optional[Mapping[str, Any]]) -> List[Example]:
        """Return the conversations to answer: a list of messages, a text of the user, or a list of these."""
        if inputs == []:
            raise BadInputs("inputs is an empty list: give at least one message")
        is_one = not isinstance(inputs, list) or all(isinstance(each, dict) for each in inputs)
        options = self.checked_parameters(arguments)
        examples = []
        values: List[object] = inputs if isinstance(inputs, list) and not is_one else [inputs]
        for at, value in enumerate(values):
            location = "inputs" if is_one else f"inputs[{at}]"
            if not isinstance(value, (str, list)):
                raise BadInputs(f"{location} must be a list of messages or a text, not {short_text(value)}")
            try:
                messages = checked_messages(location, "messages", value, "user")
            except BadData as error:
                raise BadInputs(str(error)) from error
            if messages[-1]["role"] != "user":
                raise BadInputs(f"{location} ends with the {messages[-1]['role']}: the last message must be the user's")
            examples.append(Example(location, messages[-1]["content"], options=options, detail=messages))
        return examples

    def encode_inputs(self, loaded: LoadedModel, examples: Sequence[Example]) -> List[EncodedInput]:
        """Render and tokenize the conversations. Raises `BadInputs` for one that leaves no room for an answer."""
        try:
            made = _template_of(loaded.tokenizer).tokens([(each.detail, True) for each in examples])
        except BadData as error:
            raise BadInputs(str(error)) from error
        for example, ids in zip(examples, made):
            self.check_room(loaded, example, len(ids))
        return [EncodedInput(each, (TokenRow(ids, None),)) for each, ids in zip(examples, made)]

    def generation_settings(self, loaded: LoadedModel) -> Dict[str, Any]:
        """Return the tokens that end an answer."""
        ends = loaded.model.generation_config.eos_token_id
        return {"eos_token_id": stop_tokens(ends, _template_of(loaded.tokenizer).stop)}


def checked_messages(place: object, column: str, value: Any, role_of_text: str = "") -> List[Message]:
    """Return messages with a role and a text each. Raises `BadData`.

    With `role_of_text`, the value may also be a text, which is one message of this role.
    """
    parsed = from_json(value)
    if role_of_text and not (isinstance(parsed, list) and all(isinstance(each, dict) for each in parsed)):
        return [{"role": role_of_text, "content": checked_text(place, column, value)}]
    messages = checked_list(place, column, value)
    if not messages:
        raise BadData(f"{place}: column {column!r} is an empty list: a conversation needs messages")
    return [_message(place, f"{column}[{at}]", each) for at, each in enumerate(messages)]


def _message(place: object, name: str, value: Any) -> Message:
    if not isinstance(value, dict):
        raise BadData(f"{place}: {name} must be an object with 'role' and 'content', not {short_text(value)}")
    if "role" not in value and "from" in value:
        value = {"role": SHAREGPT_ROLES.get(value["from"], value["from"]), "content": value.get("value")}
    role, content = value.get("role"), value.get("content")
    if role not in ROLES:
        hint = nearest(str(role), ROLES)
        raise BadData(f"{place}: {name}.role is {short_text(role)}: it must be one of {', '.join(ROLES)}.{hint}")
    if value.get("tool_calls"):
        raise BadData(f"{place}: {name} has tool_calls, which are not supported: write the call into the content")
    if isinstance(content, list):
        raise BadData(f"{place}: {name}.content is a list of parts: join their texts; images are not supported")
    return {"role": role, "content": checked_text(place, f"{name}.content", content, may_be_blank=role == "system")}


class Conversation(NamedTuple):
    """The tokens of a conversation, or of its beginning."""

    ids: List[int]
    answers: List[Tuple[int, int]]
    """First token of each answer that is trained, and the token after it."""

    def cut(self, length: int) -> "Conversation":
        """Return the first `length` tokens."""
        answers = [(start, min(end, length)) for start, end in self.answers if start < length]
        return Conversation(self.ids[:length], answers)

    def with_all_tokens(self) -> "Conversation":
        """Return the conversation with all tokens as answer but the first, which nothing precedes."""
        return Conversation(self.ids, [(1, len(self.ids))])


def _joined(conversations: Sequence[Conversation]) -> Tuple[List[int], List[int], List[int]]:
    """Return tokens, flat answers and lengths of a row that holds the conversations one after the other."""
    ids: List[int] = []
    answers: List[int] = []
    for each in conversations:
        answers += [at + len(ids) for span in each.answers for at in span]
        ids += each.ids
    return ids, answers, [len(each.ids) for each in conversations]


def best_fit(lengths: Sequence[int], room: int) -> List[List[int]]:
    """Divide rows among blocks of at most `room` tokens, and return the numbers of each block's rows.

    The longest come first, each into the block that it fills best (best fit decreasing; Johnson 1973).
    """
    blocks: List[List[int]] = []
    left: List[Tuple[int, int]] = []  # room left and number of each block, ascending
    for row in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        at = bisect_left(left, (lengths[row], -1))
        free, block = left.pop(at) if at < len(left) else (room, len(blocks))
        if block == len(blocks):
            blocks.append([])
        blocks[block].append(row)
        insort(left, (free - lengths[row], block))
    return blocks


def _samples(chosen: Sequence[Tuple[Row, Conversation]]) -> "Dict[str, pa.Array]":
    """Return the table of prompts for which evaluations generate, with the data's answers."""
    import pyarrow as pa

    messages = [row.detail[0] for row, _ in chosen]
    return {
        "row": pa.array([row.number for row, _ in chosen], pa.int64()),
        "prompt": pa.array([each[-2]["content"] for each in messages], pa.string()),
        "answer": pa.array([each[-1]["content"] for each in messages], pa.string()),
        "ids": pa.array([each.ids[: each.answers[-1][0]] for _, each in chosen], pa.list_(pa.int32())),
    }


PROBE = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good morning"}]


class Template:
    """A tokenizer's chat template, and the tokens of the conversations that it renders."""

    def __init__(self, tokenizer: Any, template: Optional[str] = None) -> None:
        """Take the template, by default the tokenizer's own. Raises `BadData` if answers cannot be found by it."""
        if template:
            tokenizer.chat_template = template
        if not tokenizer.chat_template:
            raise BadData(
                "the tokenizer has no chat template: set chat_template to chatml or to a file with a Jinja template, "
                "or use a model that was trained to chat"
            )
        self._tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder
        self._control = [token.content for token in added.values() if not token.content.isspace()]
        (found,) = self.conversations([(PROBE, 0, "the chat template")])
        prompt = self.tokens([(PROBE[:1], True)])[0]
        if found.answers[0][0] != len(prompt):
            raise BadData(
                "the chat template's prompt for an answer has other tokens than the beginning of an answered "
                "conversation, because its last token joins the answer's first: use another chat_template"
            )
        special = {number for number, token in added.items() if token.special} | set(tokenizer.all_special_ids)
        ends = [token for token in found.ids[len(prompt) :] if token in special]
        if not ends:
            raise BadData(
                "the chat template ends an answer without a special token, so a model would never learn to stop: use a "
                "chat_template that ends answers with eos_token, or with a special token of the tokenizer"
            )
        self.stop = ends[-1]
        """Token that ends an answer."""

    def conversations(self, rows: Sequence[Tuple[List[Message], int, object]]) -> List[Conversation]:
        """Return the tokens and answers of conversations: messages, number of the first that is trained, and location.

        Raises `BadData` with the location if the template does not render an answer after its prompt.
        """
        wanted = [
            (messages, [at for at in range(first, len(messages)) if messages[at]["role"] == "assistant"], place)
            for messages, first, place in rows
        ]
        chats = [
            (messages[: at + is_answered], not is_answered)
            for messages, turns, _ in wanted
            for at in turns
            for is_answered in (False, True)
        ]
        texts = [self._text(*each) for each in chats]
        rendered = iter(zip(texts, self._encoded(chats, texts)))
        made = []
        for _, turns, place in wanted:
            parts = [next(rendered) for _ in range(2 * len(turns))]
            text, ids = parts[-1]
            if not all(text.startswith(part) for part, _ in parts):
                raise BadData(
                    f"{place}: the chat template renders an earlier message differently when others follow, so the "
                    "answers' tokens cannot be found: use another chat_template, such as chatml"
                )
            bounds = [_common(ids, part) for _, part in parts]
            made.append(Conversation(ids, list(zip(bounds[::2], bounds[1::2]))))
        return made

    def tokens(self, chats: Sequence[Tuple[List[Message], bool]]) -> List[List[int]]:
        """Return the tokens of messages, each with the prompt for an answer or not. Raises `BadData`."""
        return self._encoded(chats, [self._text(*each) for each in chats])

    def _text(self, messages: List[Message], has_prompt: bool) -> str:
        try:
            return str(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=has_prompt))
        except Exception as error:  # Jinja's, or any of the template's own
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            roles = ", ".join(message["role"] for message in messages)
            raise BadData(f"the chat template refuses messages of {roles}: {reason}") from error

    def _encoded(self, chats: Sequence[Tuple[List[Message], bool]], texts: Sequence[str]) -> List[List[int]]:
        if not texts:
            return []
        made = list(self._tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"])
        for at, (messages, has_prompt) in enumerate(chats):
            # A control token in somebody's text must not end the turn or begin one of another role.
            if any(token in message["content"] for message in messages for token in self._control):
                made[at] = self._sanitized(messages, has_prompt, made[at])
        return made

    def _sanitized(self, messages: List[Message], has_prompt: bool, otherwise: List[int]) -> List[int]:
        """Return the tokens with control tokens in messages as plain text, if transformers can do so (since 5.20)."""
        try:
            made = self._tokenizer.apply_chat_template(
                messages, add_generation_prompt=has_prompt, return_dict=True, sanitize_control_tokens=True
            )
        except (TypeError, ValueError, NotImplementedError):
            return otherwise
        return list(made["input_ids"])


@lru_cache(maxsize=4)
def _template_of(tokenizer: Any) -> Template:
    return Template(tokenizer)


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the number of equal tokens at the start of two rows."""
    shorter = min(len(first), len(second))
    return next((at for at in range(shorter) if first[at] != second[at]), shorter)


def stop_tokens(ends: Any, stop: int) -> List[int]:
    """Return the tokens that end a text, which a configuration has as a number, a list or None, and `stop`."""
    known = [] if ends is None else ends if isinstance(ends, list) else [ends]
    return list(dict.fromkeys([*known, stop]))


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
        self._texts: List[str] = []

    def take_texts(self, texts: List[str]) -> None:
        """Take the generated answers."""
        self._texts = texts

    def __call__(self, prediction: Any) -> Dict[str, float]:
        """Return the metrics of the answers' tokens."""
        tokens, right = prediction.predictions.astype("float64").sum(axis=0)[1:]
        return {**super().__call__(prediction), "token_accuracy": float(right / tokens)}

    def tables(self) -> Dict[str, List[Dict[str, Any]]]:
        """Return the generated answers beside the data's."""
        names = ("row", "prompt", "answer")
        rows = [{**dict(zip(names, each)), "generated": text} for each, text in zip(self._samples, self._texts)]
        return {"generated_answers.json": rows} if rows else {}

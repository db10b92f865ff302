"""A tokenizer's chat template, and the tokens of the answers in the conversations that it renders.

The template writes a conversation as one text. The messages before an answer, rendered with the generation prompt, must
be a prefix of it. What follows, up to the next message, is the answer: it includes the token that ends the turn, and
comes after the same tokens as in a request.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from training.job.processes.reporting import BadData

Message = dict[str, str]
"""`{"role": ..., "content": ...}`."""
TEMPLATES = {
    "chatml": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
    "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
}
"""Templates that can be named."""


def read_template(value: str | None) -> str | None:
    """Return the template of a field's value: a name, or a file. Raises ValueError."""
    if value is None or value in TEMPLATES:
        return TEMPLATES.get(value or "")
    try:
        return Path(value).expanduser().read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        names = " or ".join(TEMPLATES)
        raise ValueError(f"chat_template {value!r} cannot be read: {reason}; it must be {names}, or a file") from error


class Conversation(NamedTuple):
    """The tokens of a conversation, or of its beginning."""

    ids: list[int]
    answers: list[tuple[int, int]]
    """First token of each answer that is trained, and the token after it."""

    def cut(self, length: int) -> "Conversation":
        """Return the first `length` tokens."""
        answers = [(start, min(end, length)) for start, end in self.answers if start < length]
        return Conversation(self.ids[:length], answers)

    def with_all_tokens(self) -> "Conversation":
        """Return the conversation with all tokens as answer but the first, which nothing precedes."""
        return Conversation(self.ids, [(1, len(self.ids))])


PROBE = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good morning"}]


class Template:
    """A tokenizer's chat template, and the tokens of the conversations that it renders."""

    def __init__(self, tokenizer: Any, template: str | None = None) -> None:
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
        self._control = [
            token.content
            for token in added.values()
            if token.special or (token.content in str(tokenizer.chat_template) and not token.content.isspace())
        ]
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

    def conversations(self, rows: Sequence[tuple[list[Message], int, object]]) -> list[Conversation]:
        """Return the tokens and answers of conversations: messages, number of the first that is trained, and location.

        Raises `BadData` with the location if the template does not render an answer after its prompt.
        """
        wanted = [
            (messages, [at for at in range(first, len(messages)) if messages[at]["role"] == "assistant"], place)
            for messages, first, place in rows
        ]
        chats = [
            (messages[: at + is_answered], not is_answered, f"{place}: ")
            for messages, turns, place in wanted
            for at in turns
            for is_answered in (False, True)
        ]
        texts = [self._text(*each) for each in chats]
        rendered = iter(zip(texts, self._encoded([each[:2] for each in chats], texts)))
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

    def tokens(self, chats: Sequence[tuple[list[Message], bool]]) -> list[list[int]]:
        """Return the tokens of messages, each with the prompt for an answer or not. Raises `BadData`."""
        return self._encoded(chats, [self._text(*each) for each in chats])

    def _text(self, messages: list[Message], has_prompt: bool, place: str = "") -> str:
        try:
            return str(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=has_prompt))
        except Exception as error:  # Jinja's, or any of the template's own
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            roles = ", ".join(message["role"] for message in messages)
            raise BadData(f"{place}the chat template refuses messages of {roles}: {reason}") from error

    def _encoded(self, chats: Sequence[tuple[list[Message], bool]], texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        made = list(self._tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"])
        for at, (messages, has_prompt) in enumerate(chats):
            # A control token in somebody's text must not end the turn or begin one of another role.
            if any(token in message["content"] for message in messages for token in self._control):
                made[at] = self._sanitized(messages, has_prompt, made[at])
        return made

    def _sanitized(self, messages: list[Message], has_prompt: bool, otherwise: list[int]) -> list[int]:
        """Return the tokens with control tokens in messages as plain text, if transformers can do so, as 5.23 can."""
        try:
            made = self._tokenizer.apply_chat_template(
                messages, add_generation_prompt=has_prompt, return_dict=True, sanitize_control_tokens=True
            )
        except (TypeError, ValueError, NotImplementedError):
            return otherwise
        return list(made["input_ids"])


@lru_cache(maxsize=4)
def template_of(tokenizer: Any) -> Template:
    return Template(tokenizer)


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the number of equal tokens at the start of two rows."""
    shorter = min(len(first), len(second))
    return next((at for at in range(shorter) if first[at] != second[at]), shorter)


def stop_tokens(ends: Any, stop: int) -> list[int]:
    """Return the tokens that end a text, which a configuration has as a number, a list or None, and `stop`."""
    known = [] if ends is None else ends if isinstance(ends, list) else [ends]
    return list(dict.fromkeys([*known, stop]))

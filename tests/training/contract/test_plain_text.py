"""Text that is safe to show: no secret of an address, and no markup, whatever it contains."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.contract.plain_text import without_control_characters, without_markup, without_secrets

ESCAPED = "abcXYZ0189/@?#:%&=+-._~!$*,;()[]"
"""Characters that a user may have put into a password without escaping them."""
SECRET = st.text(alphabet=ESCAPED, min_size=6).map(lambda text: f"Q{text}Q")
WIDE = st.text(alphabet=ESCAPED + " \"'<>", min_size=6).map(lambda text: f"Q{text}Q")
"""With characters that end an address in text."""
HOST = st.sampled_from(["host", "host.example.org", "127.0.0.1:5000", "[::1]:5432", "localhost:80"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m \x1b[2Jgone", "red gone"),
        ("\x1b\x1b[31m[31mred", "\\u001b[31mred"),
        ("\x1b]0;title\x07 \x9b31m", "\\u001b]0;title\\u0007 \\u009b31m"),
        ("\u202eevil\u202c \u2066x", "\\u202eevil\\u202c \\u2066x"),
        ("\ud83d half", "\\ud83d half"),
        ("a\r\nb\rc\td", "a\nb\nc\td"),
        ("Zoë 日本 \N{FIRE} שלום [b]", "Zoë 日本 \N{FIRE} שלום [b]"),
    ],
)
def test_control_characters_have_no_effect(text: str, shown: str) -> None:
    assert without_control_characters(text) == shown


@given(secret=SECRET, host=HOST, scheme=st.sampled_from(["http", "https", "postgresql+psycopg", "git+ssh"]))
def test_no_password_is_shown(secret: str, host: str, scheme: str) -> None:
    text = without_secrets(f"cannot reach {scheme}://user:{secret}@{host}/path, retrying")
    assert secret not in text
    assert text == f"cannot reach {scheme}://{host}/path, retrying"


@given(secret=WIDE, host=HOST, scheme=st.sampled_from(["http", "https", "postgresql+psycopg", "git+ssh"]))
def test_no_password_of_a_known_address_is_shown(secret: str, host: str, scheme: str) -> None:
    uri = f"{scheme}://user:{secret}@{host}/path"
    assert without_secrets(f"cannot reach {uri}, retrying", uri) == f"cannot reach {scheme}://{host}/path, retrying"
    assert secret not in without_secrets(f"password {secret} is wrong; trying {quote(secret)}", uri)


@given(secret=WIDE, name=st.text("abc_"))
def test_no_value_of_a_known_query_is_shown(secret: str, name: str) -> None:
    uri = f"https://example.org/x?{name}={secret}"
    assert secret not in without_secrets(f"cannot reach {uri}", uri)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://token@github.com/org/name", "https://github.com/org/name"),
        ("http://u:p/w@host/x", "http://host/x"),
        ("postgresql://u:p?w@host/db?password=x&sslmode=require", "postgresql://host/db?password=***&sslmode=***"),
        ("https://host/x?TOKEN", "https://host/x?***"),
        ("https://host/x#access_token=T&type=b", "https://host/x#access_token=***&type=***"),
        ("Max retries exceeded with url: /x?token=S/api/2.0", "Max retries exceeded with url: /x?token=***"),
        ("two: http://a:b@c/ and ftp://d:e@f/.", "two: http://c/ and ftp://f/."),
    ],
)
def test_secrets_are_removed(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    ("text", "uri", "shown"),
    [
        ("cannot use SEC/RET@A", "postgresql://u:SEC/RET@A@h/db", "cannot use ***"),
        ("user u: wrong password", "postgresql://u:wrong@h", "user u: *** password"),
        ("token abcdef1 is unknown", "https://abcdef1@h/x", "token *** is unknown"),
        ("user alice is unknown", "postgresql://alice@h/x", "user alice is unknown"),
        ("SSL is required: require", "postgresql://h/x?sslmode=require", "SSL is required: require"),
    ],
)
def test_parts_of_a_known_address_are_removed(text: str, uri: str, shown: str) -> None:
    assert without_secrets(text, uri) == shown


@pytest.mark.parametrize("part", ["a1.", "://a:b@", "://u:p?"])
def test_long_text_is_searched_in_time_that_grows_with_its_length(part: str) -> None:
    """A log line has up to a million characters. If the time grew with their square, pytest would stop this test."""
    without_secrets(part * (1_000_000 // len(part)))


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/org/name@v1.2",
        "models:/emotion@champion",
        "sqlite:////home/me/mlflow.db",
        "write to me@example.org",
        "http://localhost/a@b",
        "http://localhost:5000, or http://[::1]:5000.",
        "https://host/page#section",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert without_secrets(text) == text


def test_markup_is_shown_and_has_no_effect() -> None:
    text = "# *a* [b](http://c) | <img src=x> `d` www.e.org\n| f"
    assert without_markup(text) == (r"\# \*a\* \[b\](http\://c) \| &lt;img src=x&gt; \`d\` www\.e.org \| f")

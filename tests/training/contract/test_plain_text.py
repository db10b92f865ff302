"""Text that is safe to show: no secret of an address, and no markup, whatever it contains."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.contract.plain_text import without_markup, without_secrets

# Every character that a user may have put into a password without escaping it. A blank ends an address.
SECRET = st.text(alphabet="abcXYZ0189/@?#:%&=+-._~!$*,;()[]", min_size=6).map(lambda text: f"Q{text}Q")
HOST = st.sampled_from(["host", "host.example.org", "127.0.0.1:5000", "[::1]:5432", "localhost:80"])


@given(secret=SECRET, host=HOST, scheme=st.sampled_from(["http", "https", "postgresql+psycopg", "git+ssh"]))
def test_no_password_is_shown(secret: str, host: str, scheme: str) -> None:
    text = without_secrets(f"cannot reach {scheme}://user:{secret}@{host}/path, retrying")
    assert secret not in text
    assert text == f"cannot reach {scheme}://{host}/path, retrying"


@given(secret=SECRET.map(lambda text: text.replace("&", "").replace(";", "").replace("#", "")), name=st.text("abc_"))
def test_no_value_of_a_query_is_shown(secret: str, name: str) -> None:
    text = without_secrets(f"fatal: https://git.example.org/name.git?{name}={secret} not found")
    assert secret not in text
    assert text.startswith("fatal: https://")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://token@github.com/org/name", "https://github.com/org/name"),
        ("http://u:p/w@host/x", "http://host/x"),
        ("http://u:12/34@host:5000", "http://host:5000"),
        ("postgresql://u:p?w@host/db?password=x&sslmode=require", "postgresql://host/db?password=***&sslmode=***"),
        ("two: http://a:b@c/ and ftp://d:e@f/.", "two: http://c/ and ftp://f/."),
    ],
)
def test_secrets_are_removed(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/org/name@v1.2",
        "models:/emotion@champion",
        "file:///home/me/a@b",
        "sqlite:////home/me/mlflow.db",
        "write to me@example.org",
        "http://localhost/a@b",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert without_secrets(text) == text


def test_markup_is_shown_and_has_no_effect() -> None:
    text = "# *a* [b](http://c) | <img src=x> `d` www.e.org\n| f"
    assert without_markup(text) == (r"\# \*a\* \[b\](http\://c) \| &lt;img src=x&gt; \`d\` www\.e.org \| f")

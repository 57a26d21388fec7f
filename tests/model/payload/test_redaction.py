from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.model.payload.redaction import DEFAULT_KEYS, MARK, Redactor, words_of
from otel_toolcall_eval.model.payload.rendering import render

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET = "hunter2"  # noqa: S105 - it opens nothing
REDACTOR = Redactor()


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"password": SECRET}, id="member"),
        pytest.param({"a": {"b": [{"api_key": SECRET}]}}, id="nested"),
        pytest.param({"secret": {"a": [SECRET, "}"], "b": f"] {SECRET}"}}, id="object"),
        pytest.param({"cookies": [SECRET, {"x": SECRET}]}, id="list"),
        pytest.param({"body": json.dumps({"password": SECRET, "q": 1})}, id="json-in-text"),
        pytest.param({"body": json.dumps({"inner": json.dumps({"password": SECRET})})}, id="json-in-json-in-text"),
        pytest.param(json.dumps({"password": SECRET, "it's": 1}), id="json-with-an-apostrophe"),
        pytest.param({"body": "{'token': 'hunter2'}"}, id="literal-in-text"),
        pytest.param({"body": json.dumps({"password": f"x{SECRET}" * 9})[:40]}, id="json-that-was-cut"),
        pytest.param({"body": json.dumps({"secret": {"a": SECRET, "b": SECRET}})[:38]}, id="object-that-was-cut"),
        pytest.param({"headers": f"Accept: *\nAuthorization: Basic {SECRET}, x\nHost: h"}, id="header"),
        pytest.param({"headers": f"Accept: *\r\ncookie: a={SECRET}; b={SECRET}"}, id="header-in-lower-case"),
        pytest.param({"url": f"http://h/p?q=1&access_token={SECRET}&z=2"}, id="query"),
        pytest.param({"url": f"postgres://user:{SECRET}@host/db"}, id="password-in-a-url"),
        pytest.param({"text": f"--password={SECRET} --verbose"}, id="option"),
        pytest.param({"code": f"connect(password = '{SECRET}', port=1)"}, id="assignment"),
        pytest.param({"code": f'{{:password => "{SECRET}"}}'}, id="arrow"),
        pytest.param({"password": f"it's {SECRET}"}, id="apostrophe-inside"),
        pytest.param({"password": f"{SECRET}\\"}, id="backslash-at-the-end"),
        pytest.param({"password": f"\"{SECRET}\" and '{SECRET}'"}, id="both-quotes-inside"),
        pytest.param({"pass_word": 1, "X-Api-Key": SECRET}, id="words-with-dashes"),
        pytest.param({"openaiApiKey": SECRET}, id="camel-case"),
        pytest.param({"APIKEY": SECRET}, id="capitals"),
        pytest.param({"apikey": SECRET}, id="one-word"),
        pytest.param({"user's password": SECRET}, id="key-with-an-apostrophe"),
        pytest.param({"db.password": SECRET}, id="path-as-key"),
        pytest.param({"api key": SECRET}, id="key-with-a-blank"),
        pytest.param({("api", "token"): SECRET}, id="key-that-is-a-tuple"),
        pytest.param({"x" * 300 + "_password": SECRET}, id="long-key"),
        pytest.param({"x": "a b c d e f g h i j k l m n o p q r s t u v w x y z the password: " + SECRET}, id="sentence"),
    ],
)
def test_value_under_a_secret_key_is_taken_out(value: object) -> None:
    assert SECRET in render(value)
    shown = REDACTOR.in_value(render(value))
    assert SECRET not in shown
    assert MARK in shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("{'q': 'a', 'password': 'x', 'n': 3}", "{'q': 'a', 'password': [REDACTED], 'n': 3}", id="text"),
        pytest.param("{'token': 12, 'n': 3}", "{'token': [REDACTED], 'n': 3}", id="number"),
        pytest.param("{'n': {'token': None}}", "{'n': {'token': [REDACTED]}}", id="none"),
        pytest.param("{'secret': ({'a': '}'},), 'n': 3}", "{'secret': [REDACTED], 'n': 3}", id="brackets"),
        pytest.param('\'{"password": "x", "n": 3}\'', '\'{"password": [REDACTED], "n": 3}\'', id="json-in-text"),
        pytest.param("x?token=1&n=3", "x?token=[REDACTED]&n=3", id="query"),
        pytest.param(r"'token: a b\nn: 3'", r"'token: [REDACTED]\nn: 3'", id="line"),
        pytest.param("{'password': 'abc...", "{'password': [REDACTED]", id="cut"),
        pytest.param("{'password': ", "{'password': ", id="nothing-there"),
        pytest.param("password: 'a', token: 'b'", "password: [REDACTED], token: [REDACTED]", id="two"),
        pytest.param(
            r"""'{"a": "{\\"token\\": \\"x\\", \\"n\\": 3}"}'""", r"""'{"a": "{\\"token\\": [REDACTED], \\"n\\": 3}"}'""", id="json-twice"
        ),
        pytest.param("Actual: {'q': 'a'}, Expected: {'q': 'b'}, Score: 0.0", None, id="no-secret"),
        pytest.param(
            "{'max_tokens': 12, 'tokenizer': 'x', 'secretary': 'y', 'keyboard': 'z'}", None, id="letters-of-a-rule-in-other-words"
        ),
        pytest.param("['password', 'token']", None, id="words-that-are-no-keys"),
        pytest.param("", None, id="empty"),
    ],
)
def test_what_stands_around_a_secret_stays(text: str, expected: str | None) -> None:
    assert REDACTOR.in_value(text) == (text if expected is None else expected)


# Put together here, so that nobody's scanner takes them for real.
SHAPES: Mapping[str, str] = {
    "bearer": "Bearer " + "abcdef12",
    "basic": "Basic " + "dXNlcjpwYXNz",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA " + "PRIVATE KEY-----",
    "private key that was cut": "-----BEGIN " + "PRIVATE KEY-----\nMIIEowIBAAK",
    "openai": "sk-" + "proj-abcdefgh12345678",
    "stripe": "sk_" + "live_abcdefgh12345678",
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "google": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "google token": "ya29." + "a0AfH6SMBx1234567",
    "github": "ghp_" + "abcdefghij1234567890",
    "github fine": "github_pat_" + "abcdefghij1234567890",
    "gitlab": "glpat-" + "abcdefghij1234567890",
    "slack": "xoxb-" + "1234567890-abcdef",
    "hugging face": "hf_" + "abcdefghij1234567890",
    "npm": "npm_" + "abcdefghij1234567890",
    "pypi": "pypi-" + "AgEIcHlwaS5vcmcabcdef",
    "sendgrid": "SG." + "abcdefgh12345678.abcdefgh12345678",
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("around", ["{}", "the key is {} thanks", "a\n{}", "q={}&r=1", "({})", "['{}']"])
def test_what_looks_like_a_secret_is_taken_out_wherever_it_stands(shape: str, around: str) -> None:
    for text in (around.format(shape), render({"note": around.format(shape)}), json.dumps({"note": around.format(shape)})):
        for shown in (REDACTOR.in_text(text), REDACTOR.in_value(text)):
            assert MARK in shown
            assert not any(part in shown for part in (shape, "MIIE", "abcdef", "EXAMPLE", "dXNlc", "hbGci", "AgEI"))


@pytest.mark.parametrize("shape", [SHAPES["openai"], SHAPES["jwt"], SHAPES["github"]])
@pytest.mark.parametrize("length", [5, 8, 12, 19])
def test_what_the_rendering_cut_short_is_taken_out_too(shape: str, length: int) -> None:
    shown = REDACTOR.in_value(render({"n": shape}, limit=len("{'n': '") + length))
    assert shown.removesuffix("...") == "{'n': '[REDACTED]"


@pytest.mark.parametrize(
    "text",
    [
        "2 of 3 expected arguments match; fetch_user_0: $.user_id differs, $.password is missing",
        "refresh_token: called 3 times, expected exactly 5",
        "basic information, bearer of news, task-force, disk-usage-of-the-machine, hf_, risk_assessment_of_the_trade",
        "https://host:8080/path?a=b@c",
    ],
)
def test_our_own_explanations_stay_as_they_are(text: str) -> None:
    assert REDACTOR.in_text(text) == text


class Upper:
    """Takes out capitals."""

    def sub(self, replacement: str, text: str, /) -> str:
        return "".join(replacement if letter.isupper() else letter for letter in text)


def test_rules_of_users_add_to_ours_or_stand_alone() -> None:
    text = f"{{'password': 'x', 'customerIBAN': 'y', 'n': '{SHAPES['bearer']}', 'z': 1}}"
    both = Redactor(keys=["iban"])
    assert both.in_value(text) == "{'password': [REDACTED], 'customerIBAN': [REDACTED], 'n': '[REDACTED]', 'z': 1}"
    assert Redactor(keys=["iban"], defaults=False).in_value(text) == text.replace("'y'", MARK)
    assert Redactor(defaults=False).in_value(text) == Redactor(keys=["--"], defaults=False).in_value(text) == text
    patterned = Redactor(patterns=[Upper()], defaults=False)
    assert patterned.in_text("aBc") == patterned.in_value("aBc") == "a[REDACTED]c"
    assert patterned.in_text("B" + "a" * 400) == MARK + "a" * 400  # longer than what is remembered


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("api_key", ["api", "key"]),
        ("X-Api-Key", ["x", "api", "key"]),
        ("openaiAPIKey2", ["openai", "api", "key", "2"]),
        ("OAuthToken", ["o", "auth", "token"]),
        ("Schlüssel.Wort", ["schl", "ü", "ssel", "wort"]),
        ("--", []),
    ],
)
def test_words_of_a_key(key: str, words: list[str]) -> None:
    assert words_of(key) == words


@given(st.text(), st.sampled_from(DEFAULT_KEYS), st.sampled_from([str.lower, str.upper, str.title]), st.integers(0, 3))
def test_no_text_under_a_secret_key_is_shown_however_deep(text: str, key: str, spelling: object, depth: int) -> None:
    secret = f"{text}~{SECRET}~{text}"
    value: object = {"a": 1, spelling(key): secret, "z": [2]}  # type: ignore[operator]  # a method of str
    for _ in range(depth):
        value = {"text": json.dumps(value)}
    assert SECRET not in REDACTOR.in_value(render(value, limit=100_000))


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    assert isinstance(REDACTOR.in_value(text), str)
    assert isinstance(REDACTOR.in_text(text), str)


def test_texts_beyond_what_is_remembered_are_redacted_like_the_first() -> None:
    redactor = Redactor()
    for _ in range(2):
        for number in range(1_500):
            assert redactor.in_text(f"call {number}: Bearer abcdefgh12345") == f"call {number}: {MARK}"
    long = "x" * 1_000
    assert redactor.in_text(f"{long} Bearer abcdefgh12345") == f"{long} {MARK}"


HOSTILE = {
    "quotes": "\"'",
    "words": "a ",
    "keys": "'a b c d e f g h': ",
    "backslashes": "\\",
    "escaped quotes": "\\\"'\\'",
    "open secrets": "password: ",
    "open brackets": "password={[(",
    "open texts": "'password': '",
    "begin": "-----BEGIN PRIVATE KEY",
    "basic": "Basic a",
    "jwt": "eyJa",
    "url": "://a:",
    "sk": "sk-",
    "letters": "w",
    "dots": "a.b-",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_time_is_linear_in_a_hostile_text(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            REDACTOR.in_value(text)
            best = min(best, time.process_time() - began)
        return best

    assert seconds(160_000) < 10 * 4 * max(seconds(16_000), 0.0005)  # ten times the text; a square would be a hundred

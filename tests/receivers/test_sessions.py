"""Sessions of browsers: who may open one, how long it lasts, and what ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.receivers.http.page_access import MAX_SESSIONS, SESSION_SECONDS, Sessions
from tests.receivers.certificates import Files, write_secret

if TYPE_CHECKING:
    from pathlib import Path

    from otel_toolcall_eval.receivers.tokens import Tokens

FIRST, SECOND = "first-0123456789abcdef", "second-0123456789abcdef"


class Clock:
    """A clock that is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Files(folder=tmp_path).tokens(f"{FIRST}\n{SECOND}\n")


def begun(sessions: Sessions, token: str = FIRST) -> str:
    name = sessions.begin(token)
    assert name is not None
    return name


@pytest.mark.parametrize("token", ["", "wrong", FIRST[:-1], "\ud800", f"Bearer {FIRST}"])
def test_nobody_begins_a_session_without_a_valid_token(tokens: Tokens, token: str) -> None:
    assert Sessions(tokens).begin(token) is None


@pytest.mark.parametrize("name", [None, "", "guessed", FIRST, "\udcff"])
def test_a_name_that_was_not_given_opens_nothing(tokens: Tokens, name: str | None) -> None:
    sessions = Sessions(tokens)
    begun(sessions)
    assert not sessions.is_open(name)


def test_a_session_lasts_a_working_day_and_no_longer(tokens: Tokens) -> None:
    clock = Clock()
    sessions = Sessions(tokens, clock=clock)
    name = begun(sessions)
    clock.now += SESSION_SECONDS - 1
    assert sessions.is_open(name)
    clock.now += 1
    assert not sessions.is_open(name)
    clock.now -= SESSION_SECONDS
    assert not sessions.is_open(name), "it ended for good"


def test_ending_one_session_leaves_the_others(tokens: Tokens) -> None:
    sessions = Sessions(tokens)
    one, other = begun(sessions), begun(sessions, SECOND)
    sessions.end(one)
    sessions.end("never begun")
    sessions.end(None)
    assert (sessions.is_open(one), sessions.is_open(other)) == (False, True)


def test_a_token_that_is_taken_away_ends_its_sessions(tokens: Tokens, tmp_path: Path) -> None:
    sessions = Sessions(tokens)
    one, other = begun(sessions), begun(sessions, SECOND)
    write_secret(Files(folder=tmp_path).token_file, f"{SECOND}\n".encode())
    tokens.refresh()
    assert (sessions.is_open(one), sessions.is_open(other)) == (False, True)


def test_the_oldest_session_makes_room(tokens: Tokens) -> None:
    sessions = Sessions(tokens)
    names = [begun(sessions) for _ in range(MAX_SESSIONS + 1)]
    assert [sessions.is_open(name) for name in names] == [False] + [True] * MAX_SESSIONS

"""Which journals of another number of processes keep a sidecar from starting, and which do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.errors import SettingsError
from otel_toolcall_eval.journal.left_behind import check_left_behind, file_of, holds_open
from otel_toolcall_eval.journal.store import Sync
from tests.fakes import span
from tests.journal.lives import Life

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def test_what_is_open_or_not_delivered_is_held_and_what_is_decided_and_delivered_is_not(path: Path) -> None:
    life = Life(path, Sync.ACK, delivers=False)
    life.send(span(1))
    life.die()
    assert holds_open(path)
    life = Life(path, Sync.ACK, delivers=False)
    life.wait(11)
    assert len(life.emitted) == 1
    life.die()
    assert holds_open(path)  # it may not have reached whoever listens
    Life(path, Sync.ACK).end()
    assert not holds_open(path)


def test_what_another_number_of_processes_left_open_is_named_with_what_to_do(path: Path) -> None:
    life = Life(file_of(path, index=1, workers=2), Sync.ACK)
    life.send(span(1))
    life.die()
    check_left_behind(path, workers=2)
    with pytest.raises(
        SettingsError, match=r"journal-2-of-2\.db: it holds traces that 2 processes left open.*start once with workers: 2 and end it"
    ):
        check_left_behind(path, workers=1)


def test_what_is_no_journal_is_nobodys(path: Path) -> None:
    check_left_behind(path, workers=2)
    path.write_bytes(b"no journal" * 1_000)
    assert not holds_open(path)
    check_left_behind(path, workers=2)

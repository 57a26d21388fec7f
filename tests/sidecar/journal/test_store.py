"""The file itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.sidecar.journal import statements as sql
from otel_toolcall_eval.sidecar.journal.store import JournalStore, Sync

if TYPE_CHECKING:
    from pathlib import Path


def test_room_of_rows_that_are_gone_is_given_back_in_large_pieces(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = JournalStore(path, Sync.NONE)
    store.change((sql.INSERT, [(number, bytes(16), 1, 0, 0, bytes(4000)) for number in range(1, 6001)]))
    store.change(("DELETE FROM entries WHERE number > ?", [(1,)]))
    full = store._run("PRAGMA page_count")[0][0]  # noqa: SLF001 - what the file has
    store.give_back_room()
    assert store._run("PRAGMA page_count")[0][0] <= full - 2000  # noqa: SLF001 - likewise
    store.close()

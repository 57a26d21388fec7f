"""A ``Recent`` whose store a test can ask."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from otel_toolcall_eval.status.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_toolcall_eval.status.condensing import Telling
    from otel_toolcall_eval.status.store import Store


class StoredRecent(Recent):
    """Remembers in ``store``."""

    def __init__(self, store: Store, *, tell: Telling, clock: Callable[[], int] = time.time_ns) -> None:
        super().__init__(store, tell=tell, clock=clock)
        self.store = store

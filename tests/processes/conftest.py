from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.processes import crew, link
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _patience() -> Iterator[None]:
    """Let answers come late: members that are played on threads of a busy machine take their time."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((crew, "ASK_SECONDS"), (crew, "PROBLEMS_SECONDS"), (crew, "RELOAD_SECONDS"), (link, "STALLED_SECONDS")):
            patch.setattr(module, name, PATIENCE_SECONDS)
        yield

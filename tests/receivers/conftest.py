from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.receivers import intake
from otel_toolcall_eval.receivers.grpc import receiver as otlp_grpc
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _patience() -> Iterator[None]:
    """Let what is sent at once come late, and what is written be written late: on a busy machine seconds pass unseen."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((otlp_grpc, "HEALTH_SECONDS"), (intake, "RECEIPT_SECONDS")):
            patch.setattr(module, name, PATIENCE_SECONDS)
        yield

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.exporters.sinks import grpc_sink, http_sink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.exporters.sinks import Sink


@pytest.fixture(params=["grpc", "http"])
def sink(request: pytest.FixtureRequest) -> Iterator[Sink]:
    yield from grpc_sink() if request.param == "grpc" else http_sink()

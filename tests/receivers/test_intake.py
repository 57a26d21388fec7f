from __future__ import annotations

import pytest

from otel_toolcall_eval.model.errors import DecodeError, IntakeError, OverloadedError, TooLargeError
from otel_toolcall_eval.receivers.http.body import TooSlowError
from otel_toolcall_eval.receivers.intake import reason_of


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(DecodeError, "undecodable", id="undecodable"),
        pytest.param(TooLargeError, "too_large", id="too large"),
        pytest.param(OverloadedError, "overloaded", id="overloaded"),
        pytest.param(TooSlowError, "too_slow", id="too slow"),
        pytest.param(type("Teapot", (IntakeError,), {"http_status": 418}), "unsupported", id="anything else"),
    ],
)
def test_refusals_are_counted_under_a_few_reasons(error: type[IntakeError], reason: str) -> None:
    assert reason_of(error(where="w", what="x", fix="f")) == reason

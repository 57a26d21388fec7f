from __future__ import annotations

import pytest

from otel_toolcall_eval.model.criteria import Criteria


def test_criteria_that_do_not_say_how_many_expectations_they_hold_are_no_criteria() -> None:
    with pytest.raises(NotImplementedError):
        Criteria().expectation_count  # noqa: B018 - asking is the test

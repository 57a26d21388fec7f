from __future__ import annotations

from otel_toolcall_eval.exporters.metrics.count_sources import CriteriaInfo, CriteriaReloads
from otel_toolcall_eval.model.criteria import CriteriaSet


def test_criteria_in_force_are_shown_with_their_versions() -> None:
    sets = [CriteriaSet(name="a", checks=(), version="1"), CriteriaSet(name="b", checks=(), version="7")]
    info = CriteriaInfo(lambda: sets)
    assert info.counts() == {
        ("toolcall_eval.criteria.info", (("criteria", "a"), ("criteria.version", "1"))): 1,
        ("toolcall_eval.criteria.info", (("criteria", "b"), ("criteria.version", "7"))): 1,
    }
    sets[:] = [CriteriaSet(name="a\ud800", checks=(), version="2")]  # as it is, it would cost the whole export
    assert list(info.counts()) == [("toolcall_eval.criteria.info", (("criteria", "a?"), ("criteria.version", "2")))]


def test_criteria_beyond_the_bound_are_one() -> None:
    sets = [CriteriaSet(name=f"c{number}", checks=(), version="1") for number in range(501)]
    assert len(CriteriaInfo(lambda: sets[:500]).counts()) == 500
    counts = CriteriaInfo(lambda: sets).counts()
    assert len(counts) == 501
    assert ("toolcall_eval.criteria.info", (("criteria", "_OTHER"), ("criteria.version", "_OTHER"))) in counts


def test_reloads_are_counted_by_what_became_of_them() -> None:
    reloads = CriteriaReloads()
    loaded, rejected = (("toolcall_eval.criteria.reloads", (("result", result),)) for result in ("loaded", "rejected"))
    assert reloads.counts() == {loaded: 0, rejected: 0}
    reloads.loaded()
    reloads.rejected()
    reloads.rejected()
    assert reloads.counts() == {loaded: 1, rejected: 2}

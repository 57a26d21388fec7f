from __future__ import annotations

from otel_toolcall_eval.evaluators.caching import MAX_PLANS, PrecomputedCriteria


def test_plan_is_made_once_for_the_same_criteria() -> None:
    made: list[list[str]] = []

    def build(criteria: list[str]) -> int:
        made.append(criteria)
        return len(made)

    plans: PrecomputedCriteria[list[str], int] = PrecomputedCriteria(build)
    one, equal = ["a"], ["a"]
    assert [plans.of(one), plans.of(one), plans.of(equal), plans.of(one)] == [1, 1, 2, 1]
    assert made == [one, equal]


def test_plans_do_not_pile_up() -> None:
    made = 0

    def build(criteria: object) -> object:
        nonlocal made
        made += 1
        return criteria

    plans: PrecomputedCriteria[object, object] = PrecomputedCriteria(build)
    kept = [object() for _ in range(MAX_PLANS)]
    assert [plans.of(criteria) for criteria in kept * 2] == kept * 2
    assert made == MAX_PLANS
    plans.of(object())
    plans.of(kept[0])
    assert made == MAX_PLANS + 2

"""What the examples share: the tools of an order desk, what its scripted model asks for, and how verdicts are shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval import EvaluationResult

CRITERIA = Path(__file__).parent / "order_desk.yaml"
QUESTION = "Please refund order A-7."

Step: TypeAlias = "tuple[str, dict[str, object]]"

SCRIPT: Sequence[Step] = [("get_order", {"order_id": "A-7"}), ("refund_order", {"order_id": "A-7", "amount": 19.99})]
"""The tools that the model asks for, in turn, before it answers. A real model takes the place of the script, and nothing else changes."""

calls: list[tuple[str, dict[str, object], object]] = []
"""Name, arguments and output of each call, noted by the tools themselves: our tests hold the verdicts against it."""


def get_order(order_id: str) -> dict[str, object]:
    """Look an order up."""
    order: dict[str, object] = {"order_id": order_id, "total": 19.99}
    calls.append(("get_order", {"order_id": order_id}, order))
    return order


def refund_order(order_id: str, amount: float) -> str:
    """Refund an order."""
    answer = f"refunded {amount}"
    calls.append(("refund_order", {"order_id": order_id, "amount": amount}, answer))
    return answer


def show(results: Mapping[str, EvaluationResult]) -> None:
    """Print a table of verdicts."""
    for name, result in results.items():
        print(f"{name:24} {result.label.value:12} {result.score:.2f}  {result.explanation}")  # noqa: T201 - what an example is for

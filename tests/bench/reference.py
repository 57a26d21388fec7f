"""Times the reference evaluators on the traces of ``bench_judging``. Runs in an environment of theirs, so it imports nothing of ours.

Reads ``{"sizes": {SIZE: {"calls": [...], "criteria": {...}}}, "seconds": ...}`` and writes for each size microseconds of CPU a trace and
the scores. Criteria are validated beforehand, as ours are; spans are read and judged in each call, since each evaluator does so itself.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from importlib.metadata import version
from statistics import median
from typing import Any


async def _measure(spec: dict[str, Any], seconds: float) -> dict[str, Any]:
    from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415 - in their environment alone
    from uipath.eval import evaluators  # type: ignore[import-not-found]  # noqa: PLC0415
    from uipath.eval.models import WorkloadExecution  # type: ignore[import-not-found]  # noqa: PLC0415

    def execution() -> Any:  # noqa: ANN401
        spans = [
            ReadableSpan(name=call["tool.name"], start_time=number, end_time=number + 1, attributes=call)
            for number, call in enumerate(spec["calls"])
        ]
        return WorkloadExecution(agent_input={}, workload_output={}, workload_trace=spans)

    judges = []
    for name, criteria in spec["criteria"].items():
        config = {"name": name, "strict": False, **({"subset": False} if name == "ToolCallArgsEvaluator" else {})}
        judge = getattr(evaluators, name).model_validate({"id": name, "evaluatorConfig": config})
        judges.append((judge, judge.validate_evaluation_criteria(criteria)))
    times: list[float] = []
    scores: dict[str, float] = {}
    until = time.monotonic() + seconds
    while not times or time.monotonic() < until:
        one = execution()
        began = time.thread_time()
        for judge, criteria in judges:
            scores[judge.name] = (await judge.evaluate(one, criteria)).score
        times.append(time.thread_time() - began)
    return {"us": median(times) * 1e6, "scores": scores}


async def main() -> None:
    asked = json.load(sys.stdin)
    found = {size: await _measure(spec, asked["seconds"]) for size, spec in asked["sizes"].items()}
    json.dump({"version": version("uipath"), "sizes": found}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())

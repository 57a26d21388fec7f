"""The hooks and fixtures. pytest imports this module in every run, so it imports nothing of ours until a test asks for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.inprocess.pytest_plugin import CRITERIA_INI, FIXTURE, MARKER

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from otel_toolcall_eval.inprocess.pytest_plugin.tool_calls import ToolCalls

REPORT_OPTION = "--tool-calls-report"

_COMPARISONS = "otel_toolcall_eval.inprocess.pytest_plugin.comparisons"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what can be set."""
    parser.addini(CRITERIA_INI, "files and folders of criteria that the marker tool_calls finds its items in", type="paths", default=[])
    group = parser.getgroup("tool calls")
    group.addoption(REPORT_OPTION, metavar="PATH", help="write each verdict on the tool calls of a test to this file, as JSON lines")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the report if one is wanted; with xdist, in the process that collects the results."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(*items, criteria=(), config=None): after the test, evaluate the tool calls of the agent by items of the criteria "
        "files, or by criteria in the guides' form",
    )
    if config.getoption(REPORT_OPTION) and not hasattr(config, "workerinput"):
        from otel_toolcall_eval.inprocess.pytest_plugin.hooks import VerdictReport  # noqa: PLC0415 - see the module's docstring

        config.pluginmanager.register(VerdictReport(config.getoption(REPORT_OPTION)), "toolcall_eval_report")


@pytest.fixture
def tool_calls_tracer_provider() -> object:
    """Return the TracerProvider whose spans ``tool_calls`` reads: the global one. Override it to name another."""
    from otel_toolcall_eval.inprocess.pytest_plugin.recorder import provider_in_force  # noqa: PLC0415 - see the module's docstring

    return provider_in_force()


@pytest.fixture
def tool_calls(request: pytest.FixtureRequest, tool_calls_tracer_provider: object) -> Iterator[ToolCalls]:
    """Record the agent's spans from here on, and return the tool calls in them, to be compared with what is expected."""
    from otel_toolcall_eval.inprocess.pytest_plugin.tool_calls import record  # noqa: PLC0415 - see the module's docstring

    config = request.config
    with record(tool_calls_tracer_provider, root=config.rootpath, criteria=config.getini(CRITERIA_INI)) as recorded:
        yield recorded


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Record a marked test, and report criteria that can't be used before its agent runs."""
    if item.get_closest_marker(MARKER) is None:
        return
    from otel_toolcall_eval.inprocess.pytest_plugin.hooks import look_up  # noqa: PLC0415
    from otel_toolcall_eval.model.errors import CriteriaError  # noqa: PLC0415 - see the module's docstring

    names = getattr(item, "fixturenames", None)
    if names is None:
        pytest.fail(f"{item.nodeid}: a {type(item).__name__} has no fixtures, so its tool calls can't be recorded", pytrace=False)
    if FIXTURE not in names:
        names.append(FIXTURE)
    try:
        look_up(item)
    except CriteriaError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Evaluate a marked test once its own assertions have passed."""
    outcome = yield
    if item.get_closest_marker(MARKER) is not None:
        from otel_toolcall_eval.inprocess.pytest_plugin.hooks import evaluate_item  # noqa: PLC0415 - see the module's docstring

        failure = evaluate_item(item)
        if failure:
            pytest.fail(failure, pytrace=False)
    return outcome


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the verdicts into the report of the test, as plain values, which xdist can forward."""
    report = yield
    judged = getattr(getattr(item, "funcargs", {}).get(FIXTURE), "judged", None)
    if judged and call.when == "call" and item.config.getoption(REPORT_OPTION):
        from otel_toolcall_eval.inprocess.pytest_plugin.hooks import VERDICTS, lines_of  # noqa: PLC0415 - see the module's docstring

        setattr(report, VERDICTS, lines_of(item.nodeid, judged))
    return report


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain why a comparison with recorded calls failed."""
    comparisons = sys.modules.get(_COMPARISONS)
    if comparisons is None:
        return None
    explanation: list[str] | None = None
    if isinstance(left, comparisons.Comparable):
        explanation = left.explanation(op, right, mirrored=False)
    elif isinstance(right, comparisons.Comparable):
        explanation = right.explanation(op, left, mirrored=True)
    return explanation

"""The plugin in pytest itself: real runs in processes of their own, their outcomes and their messages as text."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ["pytester"]

INI = """
[pytest]
filterwarnings = error
asyncio_mode = strict
asyncio_default_fixture_loop_scope = function
addopts = -p no:cacheprovider -p no:benchmark --strict-markers
tool_calls_criteria = evaluations
"""

CRITERIA = """
evaluations:
  - id: travel
    evaluation_criterias:
      ToolCallCountEvaluator: {tool_calls_count: {search: ["=", 1], pay: ["=", 0]}}
      ToolCallOrderEvaluator: {tool_calls_order: [search, book]}
  - id: payment
    evaluation_criterias:
      ToolCallCountEvaluator: {tool_calls_count: {pay: ["=", 1]}}
"""

AGENT = """
import json
from opentelemetry import trace

tracer = trace.get_tracer("agent")  # before there is a provider, as at the top of many modules


def call(name, args, output, tracer=tracer):
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": json.dumps(args),
        "gen_ai.tool.call.result": output,
    }
    with tracer.start_as_current_span(f"execute_tool {name}", attributes=attributes):
        pass


def run(city, tracer=tracer):
    with tracer.start_as_current_span("invoke_agent travel"):
        call("search", {"city": city}, "sunny", tracer)
        call("book", {"city": city, "nights": 2}, "booked", tracer)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini(INI)
    pytester.makepyfile(agent=AGENT)
    folder = pytester.mkdir("evaluations")
    (folder / "items.yaml").write_text(CRITERIA, encoding="utf-8")
    return pytester


def run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    return suite.runpytest_subprocess(*options, timeout=PATIENCE_SECONDS)


@pytest.mark.slow
def test_it_serves_functions_classes_unittest_asyncio_anyio_and_parallel_workers(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import asyncio, unittest
        import pytest
        import agent

        @pytest.mark.parametrize("city", ["Tokyo", "Paris", "Rome"])
        def test_function(tool_calls, city):
            agent.run(city)
            assert tool_calls.count("search") == 1
            assert tool_calls.order == ["search", "book"]
            assert tool_calls.args("search") == {"city": city}
            assert tool_calls.output("book") == "booked"

        @pytest.mark.asyncio
        async def test_asyncio(tool_calls):
            await asyncio.gather(asyncio.to_thread(agent.run, "Tokyo"), asyncio.to_thread(agent.run, "Paris"))
            assert tool_calls.count("search") == 2
            assert tool_calls.args("book") >= [{"city": "Tokyo"}, {"city": "Paris"}]

        @pytest.mark.anyio
        @pytest.mark.tool_calls("travel")
        async def test_anyio():
            agent.run("Tokyo")

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        class TestClass:
            @pytest.mark.tool_calls("travel")
            def test_method(self, tool_calls):
                agent.run("Tokyo")
                assert tool_calls.count() == 2

        class Unittest(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def recorded(self, tool_calls):
                self.tool_calls = tool_calls

            @pytest.mark.tool_calls("travel")
            def test_case(self):
                agent.run("Tokyo")
                assert self.tool_calls.count("book") == 1

        @pytest.mark.tool_calls("travel")
        class UnittestWithoutFixture(unittest.IsolatedAsyncioTestCase):
            async def test_case(self):
                agent.run("Tokyo")
        """
    )
    run(suite).assert_outcomes(passed=8)
    run(suite, "-n", "2").assert_outcomes(passed=8)


def test_failures_say_why_and_what_was_called(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import agent

        def test_count(tool_calls):
            agent.run("Tokyo")
            assert tool_calls.count("search") == 2

        def test_args(tool_calls):
            agent.run("Tokyo")
            assert {"city": "Tokyo", "nights": 3} in tool_calls.args("book")

        def test_not_called(tool_calls):
            agent.run("Tokyo")
            assert "book" not in tool_calls.order

        def test_nothing(tool_calls):
            assert tool_calls.count("delete") == 0

        def test_no_truth_value(tool_calls):
            assert not tool_calls.count("delete")
        """
    )
    result = run(suite)
    result.assert_outcomes(failed=5)
    made = [
        "E         2 calls, in the order made:",
        "E           1. search(city='Tokyo') -> 'sunny'",
        "E           2. book(city='Tokyo', nights=2) -> 'booked'",
    ]
    result.stdout.fnmatch_lines(
        [
            "E       *assert tool_calls.count('search') == 2",
            "E         0 of 1 counts hold; search: called 1 time, expected exactly 2",
            *made,
            "E       *assert {'city': 'Tokyo', 'nights': 3} in tool_calls.args('book')",
            "E         0 of 1 expected arguments match; book_0: $.nights differs",
            "E         call 1: $.nights is 2, expected 3",
            *made,
            "E       *assert 'book' not in tool_calls.order",
            "E         this is what was called",
            *made,
            "E       *assert tool_calls.count('delete') == 0",
            "E         inconclusive (no tool spans); of what was recorded, 1 of 1 counts hold",
            "E         nothing was recorded: no span began and ended in this test",
            "E           is the agent instrumented, and is its provider the global one? If not, override tool_calls_tracer_provider",
            "E       TypeError: compare it with what you expect, as in tool_calls.count('search') == 0; *",
        ],
        consecutive=False,
    )
    result.stdout.no_fnmatch_line("*comparisons.py*")


@pytest.mark.slow
def test_a_marked_test_is_judged_by_its_items_once_its_own_assertions_held(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest
        import agent

        @pytest.mark.parametrize("city", ["Tokyo", pytest.param("Paris", marks=pytest.mark.tool_calls("payment"))])
        @pytest.mark.tool_calls("travel")
        def test_items(city):
            agent.run(city)

        @pytest.mark.tool_calls("travel", criteria="evaluations/items.yaml")
        def test_nothing():
            pass

        @pytest.mark.tool_calls("payment")
        def test_own_assertion():
            agent.run("Tokyo")
            assert "own" == "first"

        @pytest.mark.tool_calls({"ToolCallOrderEvaluator": {"tool_calls_order": ["book", "search"]}}, config={
            "ToolCallOrderEvaluator": {"pass_threshold": 0.5}})
        def test_guides_form():
            agent.run("Tokyo")
        """
    )
    result = run(suite, "--tool-calls-report", "reports/verdicts.jsonl", "-n", "1")
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(
        [
            "the tool calls do not meet payment",
            "  fail          0.00  ToolCallCountEvaluator  0 of 1 counts hold; pay: called 0 times, expected exactly 1",
            "2 calls, in the order made:",
            "  1. search(city='Paris') -> 'sunny'",
            "  2. book(city='Paris', nights=2) -> 'booked'",
        ],
        consecutive=True,
    )
    result.stdout.fnmatch_lines(
        [
            "the tool calls do not meet travel",
            "  inconclusive     -  ToolCallCountEvaluator  1 of 2 counts hold; *(no tool spans)",
            "nothing was recorded: no span began and ended in this test",
        ]
    )
    result.stdout.fnmatch_lines(["E*AssertionError: assert 'own' == 'first'"])
    lines = (suite.path / "reports" / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    verdicts = {(one["test"].partition("::")[2], one["criteria"], one["evaluator"][8:-9]): one for one in map(json.loads, lines)}
    assert {key: (one["label"], one["score"]) for key, one in verdicts.items()} == {
        ("test_items[Tokyo]", "travel", "Count"): ("pass", 1.0),
        ("test_items[Tokyo]", "travel", "Order"): ("pass", 1.0),
        ("test_items[Paris]", "travel", "Count"): ("pass", 1.0),
        ("test_items[Paris]", "travel", "Order"): ("pass", 1.0),
        ("test_items[Paris]", "payment", "Count"): ("fail", 0.0),
        ("test_nothing", "travel", "Count"): ("inconclusive", None),
        ("test_nothing", "travel", "Order"): ("inconclusive", None),
        ("test_guides_form", "(given in the test)", "Order"): ("pass", 0.5),
    }
    assert len(lines) == len(verdicts)


def test_report_that_cannot_be_written_is_told_in_a_line(suite: pytest.Pytester) -> None:
    (suite.path / "taken").write_text("a file, no folder", encoding="utf-8")
    suite.makepyfile("def test_nothing(): pass")
    result = run(suite, "--tool-calls-report", "taken/verdicts.jsonl")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --tool-calls-report: taken/verdicts.jsonl can't be written (*); name a file in a folder*"])


def test_a_marker_that_can_t_be_used_is_told_before_the_agent_runs(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest

        def agent_must_not_run():
            raise SystemExit("it ran")

        @pytest.mark.tool_calls("travle")
        def test_name():
            agent_must_not_run()

        @pytest.mark.tool_calls("travel", criteria=["evaluation"])
        def test_file():
            agent_must_not_run()

        @pytest.mark.tool_calls
        def test_no_name():
            agent_must_not_run()

        @pytest.mark.tool_calls("travel", critera="evaluations")
        def test_option():
            agent_must_not_run()
        """
    )
    result = run(suite)
    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines(
        [
            "tool_calls('travle'): nothing in * has this name; did you mean 'travel'?",
            "*evaluation: the file can't be read*",
            "test_*::test_no_name: the marker tool_calls names nothing; name an item, as in *",
            "test_*::test_option: the marker tool_calls has no option critera; it has config and criteria",
        ]
    )


def test_another_provider_is_named_by_overriding_a_fixture(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        import agent

        provider = TracerProvider(shutdown_on_exit=False)

        @pytest.fixture(scope="session")
        def tool_calls_tracer_provider():
            return provider

        def test_own(tool_calls):
            agent.run("Tokyo", provider.get_tracer("agent"))
            assert tool_calls.count("search") == 1
            assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)  # nothing global was set

        def test_global(tool_calls):
            agent.run("Tokyo")
            assert tool_calls.count("search") == 0
        """
    )
    result = run(suite)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E * the global provider is another one than that of the fixture tool_calls_tracer_provider; *"])


def test_a_provider_in_force_is_used_and_stays(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        """
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider

        trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
        """
    )
    suite.makepyfile(
        """
        from opentelemetry import trace
        import agent

        def test_it(tool_calls):
            before = trace.get_tracer_provider()
            agent.run("Tokyo")
            assert tool_calls.count("search") == 1
            assert [type(one).__name__ for one in before._active_span_processor._span_processors] == ["SpanRecorder"]
        """
    )
    run(suite).assert_outcomes(passed=1)


def test_a_provider_that_can_t_be_used_is_told(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest

        @pytest.fixture
        def tool_calls_tracer_provider():
            return None

        def test_it(tool_calls):
            pass
        """
    )
    result = run(suite)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["E *tool_calls_tracer_provider: a NoneType takes no span processor; let this fixture return *"])


def test_a_fixture_of_the_same_name_stays_the_suite_s_own(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest

        @pytest.fixture
        def tool_calls():
            return ["mine"]

        def test_own(tool_calls):
            assert tool_calls == ["mine"]

        @pytest.mark.tool_calls("travel")
        def test_marked():
            pass
        """
    )
    result = run(suite)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["test_*::test_marked: the fixture tool_calls is not ours, *"])


def test_whoever_does_not_use_it_pays_for_one_module(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import sys

        def test_nothing_of_ours_is_there():
            ours = {name for name in sys.modules if name.partition(".")[0] in {"otel_toolcall_eval", "opentelemetry", "pydantic"}}
            assert ours == {
                "otel_toolcall_eval", "otel_toolcall_eval.inprocess", "otel_toolcall_eval.inprocess.pytest_plugin",
                "otel_toolcall_eval.inprocess.pytest_plugin.plugin"}
        """
    )
    run(suite, "-p", "no:hypothesispytest", "-p", "no:xdist").assert_outcomes(passed=1)


def test_pytest_does_not_warn_where_the_package_was_imported_before(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(tool_calls):\n    assert len(tool_calls) == 0\n", encoding="utf-8")
    code = "import sys, pytest, otel_toolcall_eval.inprocess.processor; sys.exit(pytest.main(['-q', '-W', 'error', '-p', 'no:asyncio']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr

"""Says in a test which tools an agent called: ``assert tool_calls.count("search") == 1``.

In: the spans of the agent under test, from its own tracer provider. Out: comparisons with a verdict, and messages that say why.
May not: be imported, or cost anything, in test runs that don't use it; need pytest outside ``plugin`` and ``hooks``.

**What was chosen.** What was recorded stands on one side of an ordinary comparison, what is expected on the other:

    assert tool_calls.count("search") == 1                        # any comparison with a number; count() counts every call
    assert tool_calls.order == ["search", "book"]                 # these calls and no others, in this order
    assert ["search", "book"] in tool_calls.order                 # in this order, whatever came between
    assert tool_calls.args("search") == {"city": "Tokyo"}         # one call, with these arguments; for several, a list
    assert {"city": "Tokyo"} in tool_calls.args("search")         # a call with these arguments, whatever other calls there are
    assert tool_calls.args("search") >= {"city": "Tokyo"}         # a call with at least these arguments
    assert tool_calls.output("search") == "sunny"                 # one call, with this output; for several, a list
    assert "sunny" in tool_calls.output("search")                 # a call with this output
    tool_calls.assert_meets("tokyo_forecast")                     # an item of the criteria files, or criteria in the guides' form

Each comparison is decided by the evaluator of that name, so a test and a sidecar never disagree, and has three answers. What was not
recorded is no evidence: where no span came at all, where content was not captured, or where a span of the agent is still open,
``== 0`` is false as well as ``!= 0``, ``in`` and ``not in`` raise, and the message says what is missing. So these objects refuse to be
used as a truth value.

**What was rejected.** *Plain integers and lists*: ``== 0`` then holds where the agent was not instrumented, the one mistake that a test
of this kind has to notice; and pytest could only say ``0 == 1``. *Results with a truth value* (``assert tool_calls.in_order(...)``):
pytest shows such a result in one line of 240 characters, and only comparisons have a hook for more. *One method for each assertion*
(``tool_calls.assert_count("search", 1)``): works everywhere, but is a second language beside Python's, which is there already; it is
kept for what no operator says, ``assert_meets``. *Patterns of our own among the expected values*: ``unittest.mock.ANY``,
``pytest.approx(20)`` and whatever else has an equality of its own may stand in place of any value in them. *Lengths, integers and
iteration* of these objects, which would say nothing of what was not recorded: for that there are the plain values,
``[call.args for call in tool_calls]``.

PYTEST_DONT_REWRITE: see the package's docstring.
"""

from __future__ import annotations

MARKER = "tool_calls"
FIXTURE = "tool_calls"
CRITERIA_INI = "tool_calls_criteria"

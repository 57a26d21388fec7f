"""Metrics of several processes, as those of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.emission.aggregator import Aggregator
from otel_toolcall_eval.processes.merging import merged_states

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

    from otel_toolcall_eval.processes.crew import Crew
    from otel_toolcall_eval.processes.merging import Shown, States


class SharedAggregator(Aggregator):
    """An aggregator whose cells are here and in all other processes."""

    def __init__(self, resource: Resource, crew: Crew) -> None:
        """Ask this crew."""
        super().__init__(resource)
        self._crew = crew
        self._shown: Shown = {}

    def states(self, *, take_extremes: bool) -> States:
        """Return what all cells hold, those of one attribute set as one."""
        parts = [super().states(take_extremes=take_extremes), *self._crew.states(take_extremes=take_extremes)]
        return merged_states(parts, self._shown)

"""Verdicts as a sidecar prints them, held against what was sent."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.e2e.senders import Sent
    from tests.e2e.traffic import Recorded, Verdict
    from tests.sidecar_process import RunningSidecar


@dataclass(kw_only=True)
class SeenVerdict:
    """The verdicts of one sidecar, or of several that came one after the other: trace ID and evaluator to all that was said."""

    verdicts: dict[tuple[str, str], list[Verdict]] = field(default_factory=lambda: defaultdict(list))

    @property
    def traces(self) -> set[str]:
        """Return the traces of which any verdict has fallen."""
        return {trace_id for trace_id, _ in self.verdicts}

    def wait_for(self, sidecar: RunningSidecar, traces: Iterable[str] | int) -> None:
        """Take verdicts until so many more traces have been judged, or these."""
        already = self.traces
        while (len(self.traces - already) < traces) if isinstance(traces, int) else (not self.traces.issuperset(traces)):
            self._take(sidecar.verdicts.get(timeout=PATIENCE_SECONDS))

    def finish(self, sidecar: RunningSidecar) -> None:
        """End the sidecar and take what it says until then."""
        assert sidecar.terminate() == 0, "".join(sidecar.log)
        for record in sidecar.drained():
            self._take(record)

    def hold(self, sent: Sent, recorded: Recorded) -> None:
        """Hold that each trace which its sender did not give up was judged once by each evaluator, as in its own process, and no other."""
        arrived = {trace_id: run for trace_id, run in sent.runs.items() if trace_id not in sent.given_up}
        assert self.traces - arrived.keys() == set(), "judged although the sender was refused"
        assert arrived.keys() - self.traces == set(), "lost"
        expected = {
            (trace_id, evaluator): [verdict] for trace_id, run in arrived.items() for evaluator, verdict in recorded.verdicts[run].items()
        }
        differing = {key: (said, expected.get(key)) for key, said in self.verdicts.items() if said != expected.get(key)}
        assert not differing, f"{len(differing)} differ: {dict(list(differing.items())[:6])}"
        assert self.verdicts.keys() == expected.keys()

    def _take(self, record: dict[str, Any]) -> None:
        self.verdicts[record["trace_id"], record.get("evaluator", record["label"])].append((record["label"], record.get("score")))

"""The real Prometheus, over blocks of samples that we made or over a page that is scraped, and its tool."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.e2e.ports import held_ports
from tests.e2e.processes import logged
from tests.e2e.toolchain import PROMETHEUS, built
from tests.patience import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    Json = Mapping[str, Any]
    Labels = frozenset[tuple[str, str]]


def promtool(*arguments: str | Path) -> str:
    """Run promtool, and return what it says; it fails with what is wrong."""
    ended = subprocess.run(
        [built(PROMETHEUS) / "promtool", *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS * 3
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@dataclass(kw_only=True)
class Serving:
    """A running Prometheus."""

    process: subprocess.Popen[str]
    address: str
    log: list[str] = field(default_factory=list)

    def ask(self, path: str, **parameters: str | float) -> Any:  # noqa: ANN401 - JSON
        """Ask its API, and return the data."""
        with urlopen(f"http://{self.address}/api/v1/{path}", urlencode(parameters).encode() or None, timeout=PATIENCE_SECONDS) as answer:
            content = json.loads(answer.read())
        assert content["status"] == "success", content
        assert not content.get("warnings"), content
        return content["data"]

    def get(self, path: str, **parameters: str) -> Any:  # noqa: ANN401 - JSON
        with urlopen(f"http://{self.address}/api/v1/{path}?{urlencode(parameters)}", timeout=PATIENCE_SECONDS) as answer:
            return json.loads(answer.read())["data"]

    def instant(self, expression: str, *, at: float) -> Sequence[Json]:
        """Return the vector that an expression is at a time, in Unix seconds."""
        data = self.ask("query", query=expression, time=at)
        assert data["resultType"] == "vector", expression
        found: Sequence[Json] = data["result"]
        return found

    def range(self, expression: str, *, start: float, end: float, step: float) -> Sequence[Json]:
        """Return the series that an expression is over a time."""
        found: Sequence[Json] = self.ask("query_range", query=expression, start=start, end=end, step=step)["result"]
        return found


def vector(answer: Sequence[Json]) -> Mapping[Labels, float]:
    """Return the series of an instant answer with their values, empty labels left out."""
    return {frozenset((key, value) for key, value in each["metric"].items() if value): float(each["value"][1]) for each in answer}


@contextmanager
def serving(folder: Path, *, scraped: Sequence[str] = (), rule_files: Sequence[Path] = ()) -> Iterator[Serving]:
    """Run Prometheus over ``folder/data``.

    Args:
        folder: for its configuration; its data may be there already.
        scraped: addresses whose ``/metrics`` it reads every second.
        rule_files: what it evaluates every second.
    """
    with held_ports(1) as (address,):
        targets = [{"job_name": "sidecar", "scrape_interval": "1s", "static_configs": [{"targets": list(scraped)}]}]
        config = {"scrape_configs": targets if scraped else [], "rule_files": [str(file) for file in rule_files]}
        file = folder / "prometheus.json"  # JSON is YAML
        file.write_text(json.dumps(config), encoding="utf-8")
        program = [
            str(built(PROMETHEUS) / "prometheus"),
            *(f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"),
            # What is seeded may be older than what Prometheus keeps by itself.
            *("--storage.tsdb.retention.time=100y", "--enable-feature=exemplar-storage", "--web.enable-otlp-receiver", "--log.level=warn"),
        ]
        process = subprocess.Popen(program, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        found = Serving(process=process, address=address)
        with logged(process, found.log):
            wait_for(lambda: process.poll() is not None or _ready(address), "Prometheus")
            assert process.poll() is None, "".join(found.log)
            yield found
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0, "".join(found.log)


def _ready(address: str) -> bool:
    try:
        with urlopen(f"http://{address}/-/ready", timeout=PATIENCE_SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False

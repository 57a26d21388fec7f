"""What every end-to-end test sends, and what Prometheus is asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.prometheus import promtool, serving
from tests.e2e.traffic import Recorded, record
from tests.prometheus.seeding import write_samples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.prometheus import Serving


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder: Path = tmp_path_factory.mktemp("recorded")
    return record(folder)


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A Prometheus that has the invented hours."""
    folder = tmp_path_factory.mktemp("seeded")
    write_samples(folder / "samples.txt")
    promtool("tsdb", "create-blocks-from", "openmetrics", folder / "samples.txt", folder / "data")
    with serving(folder) as prometheus:
        yield prometheus

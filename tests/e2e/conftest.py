"""What every end-to-end test sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.traffic import Recorded, record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder: Path = tmp_path_factory.mktemp("recorded")
    return record(folder)

"""Pictures of the dashboards are drawn from answers of the real Prometheus."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.e2e.pictures import draw

if TYPE_CHECKING:
    from tests.e2e.prometheus import Serving

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("board", ["verdicts", "failures", "pipeline-health"])
def test_a_dashboard_is_drawn(seeded: Serving, board: str) -> None:
    content = draw(seeded, board)
    assert len(content) < 200_000
    with Image.open(io.BytesIO(content)) as image:
        assert image.width == 1440
        assert len(image.getcolors() or ()) > 20  # more than empty frames

"""The pictures in README are there, and no burden on a clone."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from tests.grafana.dashboards import FILES, FOLDER

README = Path(__file__).resolve().parent.parent.parent / "README.md"


def test_each_dashboard_has_its_picture_and_readme_shows_it() -> None:
    images = FOLDER.parent / "images"
    assert {file.stem for file in images.iterdir()} == {file.stem for file in FILES}
    for file in images.iterdir():
        assert file.stat().st_size < 200_000
        with Image.open(file) as image:
            assert image.width == 1440
        assert f"](config/grafana/images/{file.name})" in README.read_text(encoding="utf-8")

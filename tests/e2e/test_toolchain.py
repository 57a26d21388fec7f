"""What is built for the end-to-end tests is pinned, kept while it is the same, and missing in plain words. Needs none of it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e import chromium, toolchain
from tests.e2e.toolchain import HERE, Product, ToolchainError, built, lowest_sender, main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def product(folder: Path, *, tools: tuple[tuple[str, str], ...] = ()) -> Product:
    """Return something whose building leaves a file, and adds a line to a list."""
    source = folder / "source"
    source.touch()

    def build(made: Path) -> None:
        (made / "made").touch()
        with (folder / "builds").open("a", encoding="utf-8") as builds:
            builds.write("built\n")

    return Product(name="thing", tools=tools, sources=(source,), build=build)


@pytest.fixture
def build_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(toolchain, "BUILD", tmp_path / "build")
    monkeypatch.setattr(chromium, "found", lambda: "/usr/bin/chromium")
    return tmp_path


def test_a_missing_program_is_named_with_what_provides_it(build_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([product(build_folder, tools=(("no-such-program", "Something 1.2 or newer"),))]) == 2
    assert capsys.readouterr().err == (
        "make e2e: these programs are missing: no-such-program (Something 1.2 or newer); install them and run it again\n"
    )
    assert not (build_folder / "builds").exists()


def test_a_missing_browser_is_named_with_what_installs_it(
    build_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chromium, "found", lambda: None)
    assert main([product(build_folder)]) == 2
    assert "make e2e: these programs are missing: chromium (Chromium or Chrome: `make browser` installs it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("user", "tools", "installed", "code", "commands"),
    [
        pytest.param(0, {"apt-get"}, True, 0, 2, id="root on Debian"),
        pytest.param(0, {"apt-get"}, False, 2, 2, id="nothing came of it"),
        pytest.param(0, set(), True, 2, 0, id="root elsewhere"),
        pytest.param(1000, {"apt-get"}, True, 2, 0, id="not root"),
        pytest.param(1000, {"google-chrome"}, False, 0, 0, id="there is one"),
    ],
)
def test_a_browser_is_installed_where_that_can_be_done(
    monkeypatch: pytest.MonkeyPatch, user: int, tools: set[str], *, installed: bool, code: int, commands: int
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if name in tools else None)
    monkeypatch.setenv("DEBIAN_FRONTEND", "")
    ran = []

    def run(command: Sequence[str]) -> int:
        ran.append(command)
        if installed and "chromium" in command:
            tools.add("chromium")
        return 0

    assert chromium.main(run=run) == code
    assert len(ran) == commands
    assert chromium.main(run=lambda _: 1) == (0 if code == 0 else 2)


@pytest.mark.usefixtures("build_folder")
def test_a_failed_build_is_told_and_leaves_nothing_that_looks_built(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(made: Path) -> None:
        (made / "half").touch()
        raise ToolchainError("no network")  # noqa: EM101, TRY003 - a test's words

    broken = Product(name="thing", tools=(), sources=(), build=fail)
    assert main([broken]) == 2
    assert capsys.readouterr().err == "make e2e: no network\n"
    with pytest.raises(ToolchainError, match="thing is not built; run `make e2e`"):
        built(broken)


def test_what_is_built_is_built_again_only_when_its_sources_change(build_folder: Path) -> None:
    made = product(build_folder)
    assert main([made]) == main([made]) == 0
    first = built(made)
    assert (build_folder / "builds").read_text(encoding="utf-8") == "built\n"
    (build_folder / "source").write_text("changed", encoding="utf-8")
    assert main([made]) == 0
    assert (built(made) / "made").exists()
    assert not first.exists()


def test_lowest_sender_is_what_pyproject_allows() -> None:
    names = {re.split("==", each)[0] for each in lowest_sender()}
    assert names == {"grpcio", "opentelemetry-exporter-otlp", "opentelemetry-sdk", "protobuf"}
    assert all(re.fullmatch(r"[a-z-]+==[0-9.]+", each) for each in lowest_sender())


@pytest.mark.parametrize("folder", ["node", "grafana"])
def test_javascript_is_pinned_to_exact_versions_and_names_no_registry(folder: str) -> None:
    wanted = json.loads((HERE / folder / "package.json").read_text(encoding="utf-8"))["dependencies"]
    locked = json.loads((HERE / folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert all(re.fullmatch(r"[0-9.]+", version) for version in wanted.values())
    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert [name for name, package in locked.items() if "resolved" in package] == []

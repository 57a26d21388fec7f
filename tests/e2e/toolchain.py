"""Builds what the end-to-end tests run beside us: Collector, Prometheus, Jaeger, JavaScript senders, lowest Python SDK, Grafana's schema.

``python -m tests.e2e.toolchain`` builds all that is not there yet, under ``.build/e2e``, each in a folder that is named after a hash of
what it is made of; tests only look there. Versions are pinned by each ``go.sum`` and ``package-lock.json`` here and by ``pyproject.toml``.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e import chromium

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / ".build" / "e2e"
SENDING = re.compile(r"(opentelemetry-[a-z-]+|grpcio|protobuf)>=([^,]+),")
"""Of our own dependencies, what a sender is made of, with its lowest version."""

# Builds share the machine with whatever else runs; two jobs at a time, and only what nobody else wants of the processors.
GENTLY = ("nice", "-n", "10")


class ToolchainError(Exception):
    """Something can't be built here; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Something built.

    Attributes:
        name: of its folder.
        tools: programs that building it takes, with what provides them.
        sources: files that it is made of.
        pins: what else it is made of.
        build: fills an empty folder.
    """

    name: str
    tools: tuple[tuple[str, str], ...]
    sources: tuple[Path, ...]
    build: Callable[[Path], None]
    pins: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Return where it lies once it is built."""
        digest = hashlib.sha256(repr((sys.version, self.pins)).encode())
        for source in self.sources:
            digest.update(source.read_bytes())
        return BUILD / f"{self.name}-{digest.hexdigest()[:16]}"

    def make(self) -> None:
        """Build it if it is not there, and remove those of other sources."""
        for stale in set(BUILD.glob(f"{self.name}-*")) - {self.folder}:
            shutil.rmtree(stale)
        if self.folder.exists():
            return
        started = time.monotonic()
        sys.stdout.write(f"Building {self.name} for the end-to-end tests ...\n")
        sys.stdout.flush()
        unfinished = BUILD / f".{self.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        self.build(unfinished)
        unfinished.rename(self.folder)
        sys.stdout.write(f"Built {self.name} in {time.monotonic() - started:.0f} s\n")


def built(product: Product) -> Path:
    """Return the folder of something built; raises ToolchainError if it is not."""
    if not product.folder.exists():
        message = f"{product.name} is not built; run `make e2e`, or `python -m tests.e2e.toolchain` before these tests"
        raise ToolchainError(message)
    return product.folder


def _run(*command: str, cwd: Path) -> None:
    ended = subprocess.run([*GENTLY, *command], cwd=cwd, capture_output=True, text=True, check=False)
    if ended.returncode:
        message = f"`{' '.join(command)}` failed in {cwd}:\n{ended.stdout}{ended.stderr}"
        raise ToolchainError(message)


# readonly: what go.mod and go.sum do not name is an error, not a reason to look for it
GO_BUILD = ("go", "build", "-mod=readonly", "-p=2", "-trimpath", "-ldflags=-s -w")


def _build_collector(folder: Path) -> None:
    _run(*GO_BUILD, "-o", str(folder / "otelcol"), ".", cwd=HERE / "collector")


def _build_prometheus(folder: Path) -> None:
    # Without the clients of clouds, and without the pages for browsers, which are not in the module.
    programs = [f"github.com/prometheus/prometheus/cmd/{name}" for name in ("prometheus", "promtool")]
    _run(*GO_BUILD, "-tags=remove_all_sd", "-o", f"{folder}/", *programs, cwd=HERE / "prometheus")


def _build_jaeger(folder: Path) -> None:
    # Without its pages for browsers, which are not in the module; its API is what is asked.
    _run(*GO_BUILD, "-o", str(folder / "jaeger"), "github.com/jaegertracing/jaeger/cmd/jaeger", cwd=HERE / "jaeger")


def _build_grafana_schema(folder: Path) -> None:
    _npm(folder, HERE / "grafana")
    options = ("--path", "schema.ts", "--type", "Shapes", "--tsconfig", "tsconfig.json", "--no-type-check", "--expose", "none")
    _run(str(folder / "node_modules/.bin/ts-json-schema-generator"), *options, "--out", "schema.json", cwd=folder)


def _build_node(folder: Path) -> None:
    _npm(folder, HERE / "node")


def _npm(folder: Path, source: Path) -> None:
    shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    _run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder)


def _build_lowest_sdk(folder: Path) -> None:
    # It is moved once it is made: its scripts would not survive that, its Python does.
    _run(sys.executable, "-m", "venv", str(folder), cwd=folder)
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(*pip, *lowest_sender(), cwd=folder)


def lowest_sender() -> tuple[str, ...]:
    """Return the lowest versions of the SDK, the exporters and what they stand on that ``pyproject.toml`` allows, as requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [SENDING.match(dependency) for dependency in project["dependencies"]]
    return tuple(f"{each[1]}=={each[2]}" for each in found if each is not None)


GO = (("go", "Go 1.26.7 or newer, or one that may fetch it"),)
NPM = (("node", "Node.js 20.6 or newer"), ("npm", "npm, which comes with Node.js"))
COLLECTOR = Product(
    name="collector",
    tools=GO,
    sources=tuple(HERE / "collector" / name for name in ("main.go", "loadbalancing.go", "go.mod", "go.sum")),
    build=_build_collector,
)
PROMETHEUS = Product(
    name="prometheus",
    tools=GO,
    sources=tuple(HERE / "prometheus" / name for name in ("go.mod", "go.sum")),
    build=_build_prometheus,
)
JAEGER = Product(
    name="jaeger",
    tools=GO,
    sources=tuple(HERE / "jaeger" / name for name in ("go.mod", "go.sum")),
    build=_build_jaeger,
)
GRAFANA_SCHEMA = Product(
    name="grafana-schema",
    tools=NPM,
    sources=tuple(HERE / "grafana" / name for name in ("package.json", "package-lock.json", "schema.ts", "tsconfig.json")),
    build=_build_grafana_schema,
)
NODE = Product(
    name="node",
    tools=NPM,
    sources=tuple(HERE / "node" / name for name in ("package.json", "package-lock.json", "sender.mjs")),
    build=_build_node,
)
LOWEST_SDK = Product(name="sdk-lowest", tools=(), sources=(), build=_build_lowest_sdk, pins=lowest_sender())
PRODUCTS = (COLLECTOR, PROMETHEUS, JAEGER, NODE, GRAFANA_SCHEMA, LOWEST_SDK)


def main(products: Iterable[Product] = PRODUCTS) -> int:
    """Build everything; 0 if it is there, 2 if something lacks."""
    wanted = list(products)
    missing = [f"{tool} ({what})" for product in wanted for tool, what in product.tools if shutil.which(tool) is None]
    if chromium.found() is None:
        missing.append(f"{chromium.NAMES[0]} ({chromium.HELP})")
    if missing:
        sys.stderr.write(f"make e2e: these programs are missing: {', '.join(missing)}; install them and run it again\n")
        return 2
    try:
        for product in wanted:
            product.make()
    except ToolchainError as error:
        sys.stderr.write(f"make e2e: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

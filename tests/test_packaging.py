"""What is in the wheel, and what a user gets who installs it into an empty environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from configparser import ConfigParser
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from email.message import Message

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "otel_toolcall_eval"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUNTIME = [
    *PROJECT["dependencies"],
    *(
        one
        for extra in ("auto", "cli", "patterns", "pytest", "sidecar")
        for one in PROJECT["optional-dependencies"][extra]
        if not one.startswith(PROJECT["name"])
    ),
]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command away from the source tree, so that only what is installed is found."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "COVERAGE_PROCESS_CONFIG"}}
    return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with the build backend of this environment, so without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    assert built.returncode == 0, built.stdout + built.stderr
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


def test_the_wheel_holds_the_whole_package_with_its_data_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    there = {str(path.relative_to(ROOT)) for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert packed == there
    assert {"otel_toolcall_eval/py.typed", "otel_toolcall_eval/sidecar/admin/status/templates/base.html"} <= packed
    assert {name for name in packed if name.startswith("otel_toolcall_eval/extraction/dialects.")}
    assert "otel_toolcall_eval/cli/demo_agent/evaluations/eval-sets/default.json" in packed


def test_the_wheel_announces_itself_to_those_who_look_for_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        announced = ConfigParser()
        announced.read_string(archive.read(name).decode())
    groups = {group: dict(announced.items(group)) for group in announced.sections()}
    assert groups == {"console_scripts": PROJECT["scripts"], **PROJECT["entry-points"]}
    assert set(groups) == {"console_scripts", "opentelemetry_environment_variables", "opentelemetry_instrumentor", "pytest11"}


def test_the_metadata_says_name_version_licence_and_python(metadata: Message) -> None:
    assert metadata["Name"] == "otel-toolcall-eval"
    assert metadata["Version"] == PROJECT["version"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra") or []) == {
        "auto",
        "cli",
        "dashboards",
        "dev",
        "examples",
        "fuzz",
        "patterns",
        "pytest",
        "sidecar",
        "test",
    }


def test_the_version_is_written_in_one_place() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert [path for path, text in texts.items() if f'"{PROJECT["version"]}"' in text] == []


@pytest.mark.parametrize("requirement", RUNTIME)
def test_each_run_time_dependency_has_a_lowest_version_that_runs_and_a_major_version_that_is_not_known(requirement: str) -> None:
    assert sorted(specifier.operator for specifier in Requirement(requirement).specifier) == ["<", ">="]


def test_the_changelog_opens_with_this_version() -> None:
    heading = next(line for line in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines() if line.startswith("## "))
    assert Version(heading.removeprefix("## ").split()[0]) == Version(PROJECT["version"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An environment that holds the wheel and what it asks for, and not even pip."""

    folder: Path

    @property
    def site_packages(self) -> Path:
        [path] = self.folder.glob("lib/python*/site-packages")
        return path

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(self.folder / "bin" / command, *arguments)


def install(folder: Path, requirement: str) -> Environment:
    """Make an environment and install into it as a user would."""
    made = run(sys.executable, "-m", "venv", "--without-pip", folder)
    assert made.returncode == 0, made.stderr
    installed = run(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", requirement)
    assert installed.returncode == 0, installed.stderr
    return Environment(folder=folder)


@pytest.fixture(scope="session")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return install(tmp_path_factory.mktemp("plain"), str(wheel))


@pytest.fixture(scope="session")
def sidecar(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return install(tmp_path_factory.mktemp("sidecar"), f"{wheel}[patterns,sidecar]")


@pytest.mark.install
def test_every_public_name_is_there_after_a_plain_install(plain: Environment) -> None:
    names = "import otel_toolcall_eval as package; print([getattr(package, name) for name in package.__all__])"
    done = plain.run("python", "-W", "error", "-c", names)
    assert done.returncode == 0, done.stderr


@pytest.mark.install
def test_a_plain_install_stays_light(plain: Environment) -> None:
    unwanted = {"rich", "aiohttp", "prometheus_client", "grpc_health", "re2"}
    assert {path.name for path in plain.site_packages.iterdir()} & unwanted == set()


@pytest.mark.install
def test_the_command_of_a_plain_install_answers_or_names_the_extra_that_is_missing(plain: Environment) -> None:
    assert plain.run("otel-toolcall-eval", "--version").stdout.split()[-1:] == [PROJECT["version"]]
    done = plain.run("otel-toolcall-eval", "serve")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "otel-toolcall-eval[sidecar]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.install
def test_the_sample_is_judged_from_a_sidecar_install(sidecar: Environment) -> None:
    criteria = sidecar.site_packages / "otel_toolcall_eval" / "cli" / "demo_agent" / "evaluations"
    done = sidecar.run("otel-toolcall-eval", "check", str(criteria))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.install
def test_no_dependency_has_a_known_vulnerability(sidecar: Environment) -> None:
    done = run(sys.executable, "-m", "pip_audit", "--path", sidecar.site_packages, "--format", "json", "--progress-spinner", "off")
    if not done.stdout.startswith("{"):
        pytest.skip(f"NOT AUDITED: the vulnerability service did not answer: {done.stderr.strip().splitlines()[-1:]}")
    dependencies = json.loads(done.stdout)["dependencies"]
    unknown = [entry["name"] for entry in dependencies if "skip_reason" in entry and entry["name"] != PROJECT["name"]]
    found = {entry["name"]: entry["vulns"] for entry in dependencies if entry.get("vulns")}
    assert not found
    if unknown:
        pytest.skip(
            f"NOT AUDITED: the vulnerability service knows nothing of {len(unknown)} packages of {len(dependencies)}; is it the real one?"
        )

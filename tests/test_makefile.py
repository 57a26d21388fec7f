"""Runs the Makefile and .ci/run with stand-ins for Python and make, which write down what they were asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("sh", "awk", "bash", "cat", "chmod", "dirname", "echo", "make", "mkdir", "mv", "rm", "touch")

OLD = "exit 1\n"
# Passes the test for a suitable version; for `-m venv` leaves an environment whose Python is another stand-in.
NEW = """
case "$*" in
  --version) echo "Python 3.12.0" ;;
  *"-m venv"*) mkdir -p .venv/bin && cp "$LOG.python" .venv/bin/python && echo "venv by ${0##*/}" >>"$LOG" ;;
esac
"""
INSTALLED = """
case "$*" in "-c "*) ;; *) echo "$*" >>"$LOG" ;; esac
"""
BROKEN = "exit 127\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A clone with nothing in it but what make reads, and a PATH with nothing on it but what a test puts there."""

    folder: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def script(self, path: Path, body: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}", encoding="utf-8")
        path.chmod(0o755)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.bin), "LOG": str(self.log), "HOME": str(self.folder)}
        return subprocess.run(
            command, cwd=self.folder / "clone", env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )

    def done(self) -> list[str]:
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(folder=tmp_path)
    made.bin.mkdir()
    (tmp_path / "clone").mkdir()
    for tool in (*TOOLS, "cp"):
        made.bin.joinpath(tool).symlink_to(str(shutil.which(tool)))
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / "clone" / name)
    made.script(Path(f"{made.log}.python"), INSTALLED)
    return made


@pytest.mark.parametrize(
    ("pythons", "chosen"),
    [
        pytest.param({"python3": NEW}, "python3", id="python3"),
        pytest.param({"python3": OLD, "python3.13": NEW}, "python3.13", id="python3-is-too-old"),
        pytest.param({"python3": OLD, "python3.13": BROKEN, "python3.11": NEW}, "python3.11", id="a-shim-without-a-version-behind-it"),
        pytest.param({"python3.12": NEW}, "python3.12", id="no-python3"),
        pytest.param({"python": NEW}, "python", id="plain-python"),
    ],
)
def test_the_first_python_that_will_do_makes_the_environment(checkout: Checkout, pythons: dict[str, str], chosen: str) -> None:
    for name, body in pythons.items():
        checkout.script(checkout.bin / name, body)
    done = checkout.run("make", "demo")
    assert done.returncode == 0, done.stderr
    assert checkout.done() == [
        f"venv by {chosen}",
        "-m pip install --quiet --disable-pip-version-check --editable .[sidecar]",
        "-m otel_toolcall_eval demo",
    ]


def test_the_second_run_sets_up_nothing(checkout: Checkout) -> None:
    checkout.script(checkout.bin / "python3", NEW)
    checkout.run("make", "demo")
    checkout.done()
    done = checkout.run("make", "demo")
    assert checkout.done() == ["-m otel_toolcall_eval demo"]
    assert done.stdout + done.stderr == ""


def test_an_environment_for_the_tests_serves_the_demonstration_too(checkout: Checkout) -> None:
    checkout.script(checkout.bin / "python3", NEW)
    checkout.run("make", ".venv/.has-dev")
    assert checkout.done() == ["venv by python3", "-m pip install --quiet --disable-pip-version-check --editable .[dev]"]
    checkout.run("make", "demo")
    assert checkout.done() == ["-m otel_toolcall_eval demo"]


def test_a_changed_pyproject_brings_the_environment_up_to_date_and_keeps_it(checkout: Checkout) -> None:
    checkout.script(checkout.bin / "python3", NEW)
    checkout.run("make", "demo")
    checkout.done()
    stamp = (checkout.folder / "clone" / ".venv" / ".has-sidecar").stat().st_mtime
    os.utime(checkout.folder / "clone" / "pyproject.toml", (stamp + 10, stamp + 10))
    checkout.run("make", "demo")
    assert checkout.done() == ["-m pip install --quiet --disable-pip-version-check --editable .[sidecar]", "-m otel_toolcall_eval demo"]


def test_an_environment_whose_python_is_gone_is_made_again(checkout: Checkout) -> None:
    checkout.script(checkout.bin / "python3", NEW)
    checkout.script(checkout.folder / "clone" / ".venv" / "bin" / "python", BROKEN)
    checkout.run("make", "demo")
    assert checkout.done()[0] == "venv by python3"


def test_no_suitable_python_is_answered_with_the_cure(checkout: Checkout) -> None:
    checkout.script(checkout.bin / "python3", OLD)
    done = checkout.run("make", "demo")
    assert done.returncode != 0
    assert "no Python 3.11 or newer" in done.stderr
    assert "make PYTHON=/path/to/python3" in done.stderr
    assert checkout.done() == []


def test_a_python_that_is_named_is_tried_first(checkout: Checkout) -> None:
    checkout.script(checkout.bin / "python3", NEW)
    checkout.script(checkout.folder / "else" / "python9", NEW)
    checkout.run("make", "demo", f"PYTHON={checkout.folder / 'else' / 'python9'}")
    assert checkout.done()[0] == "venv by python9"


def test_a_failed_install_is_tried_again_next_time(checkout: Checkout) -> None:
    checkout.script(checkout.bin / "python3", NEW)
    checkout.script(Path(f"{checkout.log}.python"), 'case "$*" in *"-m pip"*) exit 1 ;; esac\n' + INSTALLED)
    assert checkout.run("make", "demo").returncode != 0
    checkout.script(checkout.folder / "clone" / ".venv" / "bin" / "python", INSTALLED)
    checkout.done()
    assert checkout.run("make", "demo").returncode == 0
    assert checkout.done() == ["-m pip install --quiet --disable-pip-version-check --editable .[sidecar]", "-m otel_toolcall_eval demo"]


def test_make_alone_lists_every_target_that_the_readme_may_name(checkout: Checkout) -> None:
    done = checkout.run("make")
    listed = {line.split()[1] for line in done.stdout.splitlines()}
    assert {"demo", "test", "check", "bench", "serve", "fuzz", "clean"} <= listed


@pytest.mark.parametrize(
    ("targets", "runs"),
    [
        pytest.param(("test",), [False], id="none"),
        pytest.param(("test COVERAGE=1", "coverage"), [True], id="kept-and-checked"),
        pytest.param(("test", "coverage"), [False, True], id="checked-without-data"),
        pytest.param(("coverage", "coverage"), [True, True], id="checked-twice"),
    ],
)
def test_coverage_costs_a_run_only_where_none_was_kept(checkout: Checkout, targets: tuple[str, ...], runs: list[bool]) -> None:
    checkout.script(checkout.bin / "python3", NEW)
    measure = 'case "$*" in *"--cov "*) : >"$COVERAGE_FILE" ;; esac\n'
    checkout.script(Path(f"{checkout.log}.python"), measure + INSTALLED)
    for target in targets:
        assert checkout.run("make", *target.split()).returncode == 0
    assert ["--cov" in line for line in checkout.done() if "-m pytest" in line] == runs


RESULTS = '<testsuites><testsuite tests="{}" failures="{}" errors="{}" skipped="{}"/></testsuites>'


@pytest.mark.parametrize(
    ("make", "results", "exit_code", "last"),
    [
        pytest.param(
            "exit 0", {"tests": (312, 0, 0, 0), "slow": (8, 0, 0, 0), "e2e": (40, 0, 0, 0)}, 0, "360 passed, 0 failed", id="green"
        ),
        pytest.param(
            "exit 0",
            {"tests": (312, 0, 0, 2), "slow": (8, 0, 0, 0), "e2e": (40, 0, 0, 1)},
            0,
            "357 passed, 0 failed, 3 skipped",
            id="some-skipped",
        ),
        pytest.param(
            '[ "$2" != test ]',
            {"tests": (312, 1, 2, 0), "slow": (8, 0, 0, 0), "e2e": (40, 0, 0, 0)},
            1,
            "357 passed, 3 failed",
            id="a-test-fails",
        ),
        pytest.param(
            '[ "$2" != e2e ]',
            {"tests": (312, 0, 0, 0), "slow": (8, 0, 0, 0), "e2e": (40, 4, 0, 0)},
            1,
            "356 passed, 4 failed",
            id="a-sender-fails",
        ),
        pytest.param(
            '[ "$2" != e2e ]', {"tests": (312, 0, 0, 0), "slow": (8, 0, 0, 0)}, 1, "320 passed, 1 failed", id="a-program-is-missing"
        ),
        pytest.param(
            '[ "$2" != types ]',
            {"tests": (312, 0, 0, 0), "slow": (8, 0, 0, 0), "e2e": (40, 0, 0, 0)},
            1,
            "360 passed, 0 failed",
            id="a-check-fails",
        ),
        pytest.param("exit 2", {}, 1, "0 passed, 3 failed", id="nothing-can-be-set-up"),
    ],
)
def test_ci_ends_with_a_count_of_the_tests_and_fails_if_anything_did(
    checkout: Checkout, make: str, results: dict[str, tuple[int, int, int, int]], exit_code: int, last: str
) -> None:
    clone = checkout.folder / "clone"
    (clone / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", clone / ".ci" / "run")
    (checkout.bin / "make").unlink()
    targets = {"tests": "test", "slow": "slow", "e2e": "e2e"}
    write = "".join(
        f"[ $2 = {targets[name]} ] && echo '{RESULTS.format(*counts)}' >.build/{name}.xml\n" for name, counts in results.items()
    )
    checkout.script(checkout.bin / "make", write + make + "\n")
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (clone / ".build").mkdir()
    for name in targets:
        (clone / ".build" / f"{name}.xml").write_text(RESULTS.format(99, 0, 0, 0), encoding="utf-8")  # of an earlier run
    done = checkout.run("bash", ".ci/run")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (exit_code, last)


def test_ci_runs_every_check_and_the_tests(checkout: Checkout) -> None:
    clone = checkout.folder / "clone"
    (clone / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", clone / ".ci" / "run")
    (checkout.bin / "make").unlink()
    checkout.script(checkout.bin / "make", 'echo "$2" >>"$LOG"\n')
    checkout.run("bash", ".ci/run")
    asked = checkout.done()
    [checks] = [line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if line.startswith("check:")]
    assert asked == [*checks.partition("##")[0].split()[1:], "examples", "test", "coverage", "slow", "lowest", "fuzz", "browser", "e2e"]

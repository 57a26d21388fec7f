"""Holds the Dockerfile to its rules, and rehearses its steps where no container engine is at hand."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
NOBODY = 65532
SUITABLE = "import sys, venv; sys.exit(sys.version_info < (3, 11))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction of a Dockerfile; ``stage`` counts from 1, and is 0 above the first FROM."""

    stage: int
    word: str
    rest: str


def instructions() -> list[Instruction]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    found: list[Instruction] = []
    stage = 0
    for line in filter(str.strip, text.splitlines()):
        word, _, rest = line.partition(" ")
        stage += word == "FROM"
        found.append(Instruction(stage=stage, word=word, rest=rest.strip()))
    return found


def final(word: str) -> list[str]:
    """Return what the final stage says under an instruction word."""
    last = max(instruction.stage for instruction in instructions())
    return [instruction.rest for instruction in instructions() if instruction.stage == last and instruction.word == word]


def test_the_image_runs_as_a_user_that_is_a_number_and_not_root() -> None:
    assert final("USER") == [f"{NOBODY}:{NOBODY}"]


def test_the_process_is_pid_1_itself_so_that_sigterm_reaches_it() -> None:
    [entry], [command] = final("ENTRYPOINT"), final("CMD")
    assert [*json.loads(entry), *json.loads(command)] == ["otel-toolcall-eval", "serve"]


def test_health_is_asked_of_our_own_command_without_a_shell() -> None:
    [check] = final("HEALTHCHECK")
    assert json.loads(check.partition(" CMD ")[2]) == ["otel-toolcall-eval", "healthcheck"]


def test_the_final_stage_builds_nothing_and_takes_only_the_environment() -> None:
    assert final("RUN") == []
    assert final("ADD") == []
    assert [copy.split()[0] for copy in final("COPY")] == ["--from=build"]


def test_both_stages_stand_on_one_base_that_is_pinned_to_a_version_line() -> None:
    [argument] = [instruction.rest for instruction in instructions() if instruction.word == "ARG"]
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+-slim-\w+", argument)
    bases = [instruction.rest.split()[0] for instruction in instructions() if instruction.word == "FROM"]
    assert bases == ["${PYTHON_IMAGE}"] * 2


def test_the_ports_are_those_of_otlp() -> None:
    assert final("EXPOSE") == ["4317 4318"]


def test_the_build_context_holds_what_is_copied_and_no_more() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copies = [
        instruction.rest.split() for instruction in instructions() if instruction.word == "COPY" and "--from=" not in instruction.rest
    ]
    assert "*" in lines
    assert let_in == {source for *sources, _target in copies for source in sources}


def as_nobody(*command: str | Path, cwd: Path) -> list[str]:
    """Return a command line that runs as nobody and can't write a byte to any file, as on a read-only root."""
    switch = shutil.which("setpriv") or ""
    user = [switch, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
    return [*user, "sh", "-c", 'ulimit -f 0 && cd "$0" && exec "$@"', str(cwd), *map(str, command)]


def build(*step: str | Path) -> None:
    done = subprocess.run(step, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def prefix() -> Iterator[Path]:
    """Do the steps of the build stage: a wheel, an environment without pip, an install; then make it read-only."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user, and setpriv does it")
    # Not pytest's own folder: nobody may not enter that.
    with tempfile.TemporaryDirectory(prefix="image-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        candidates = [sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"]
        usable = [
            base
            for base in candidates
            if subprocess.run(as_nobody(base, "-c", SUITABLE, cwd=folder), capture_output=True, check=False).returncode == 0
        ]
        if not usable:
            pytest.skip("nobody can run no Python of this machine")
        environment = folder / "opt" / "otel-toolcall-eval"
        here = [sys.executable, "-m"]
        build(usable[0], "-m", "venv", "--without-pip", environment)
        build(*here, "build", "--wheel", "--no-isolation", "--outdir", folder / "wheels", ROOT)
        [wheel] = (folder / "wheels").glob("*.whl")
        build(*here, "pip", "--python", environment, "install", "--quiet", "--compile", f"{wheel}[patterns,sidecar]")
        for path in folder.rglob("*"):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
        yield environment
        for path in folder.rglob("*"):
            if path.is_dir():
                path.chmod(0o755)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.install
def test_the_sidecar_becomes_healthy_on_a_read_only_tree_as_nobody_and_ends_with_0_on_sigterm(prefix: Path) -> None:
    command = prefix / "bin" / "otel-toolcall-eval"
    environment = {
        "PATH": f"{prefix / 'bin'}:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "OTEL_TOOLCALL_EVAL_LISTEN_GRPC": f"127.0.0.1:{free_port()}",
        "OTEL_TOOLCALL_EVAL_LISTEN_HTTP": f"127.0.0.1:{free_port()}",
    }
    healthcheck = as_nobody(command, "healthcheck", cwd=prefix)
    with subprocess.Popen(
        as_nobody(command, "serve", cwd=prefix), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as sidecar:
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while subprocess.run(healthcheck, env=environment, capture_output=True, check=False).returncode != 0:
                assert sidecar.poll() is None, sidecar.communicate()[0]
                assert time.monotonic() < deadline
            sidecar.send_signal(signal.SIGTERM)
            output, _ = sidecar.communicate(timeout=PATIENCE_SECONDS)
        finally:
            sidecar.kill()
    assert sidecar.returncode == 0, output
    assert "Traceback" not in output

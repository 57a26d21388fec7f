"""The wheel whose core is compiled: built, installed into an empty environment, and held to the tests that the pure form is held to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from compiled_wheel import missing_compiler

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.skipif(missing_compiler() is not None, reason="there is no C compiler, which the compiled wheel is for"),
]

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("assembly", "evaluators", "extraction", "values", "wire")
WHOLE = (
    "test_api.py",
    "test_binding.py",
    "test_conformance.py",
    "test_history.py",
    "test_in_process.py",
    "test_judging.py",
    "test_pipeline.py",
    "test_wrapping.py",
)
EDGES = (
    "emission/test_aggregator.py",
    "emission/test_attributes.py",
    "emission/test_batched_events.py",
    "emission/test_cells.py",
    "emission/test_judged_services.py",
    "emission/test_judged_span.py",
    "emission/test_metrics.py",
    "sources/test_span_processor.py",
)
UNLIKE = (
    "test_a_made_span_is_a_span_in_every_respect",  # compiled spans can't be pickled or copied
    "test_a_span_that_is_copied_or_sent_away",  # likewise
    "test_the_size_estimate_is_close",  # it takes somewhat less than is estimated
    "test_estimate_keeps_to_the_measured_growth",  # likewise: by a fifth at most
    "test_fault_while_judging_costs_the_root_its_verdict_only",  # puts a fault of its own into the pipeline, which can't be written to
    "test_batch_leaves_when_it_is_large_or_old",  # changes a bound that compiled code has inside
    "test_memory_of_bundles_is_bounded_and_nothing_is_lost",  # likewise
    "test_memory_of_labels_is_bounded",  # likewise
    "test_report_that_is_larger_than_a_request_is_parted",  # likewise
    "test_what_is_remembered_of_verdicts_that_are_met_is_bounded",  # likewise
)
"""What does not hold for compiled code, by parts of tests' names."""


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "COVERAGE_PROCESS_CONFIG"}}
    done = subprocess.run(command, cwd=cwd, env={**environment, **variables}, capture_output=True, text=True, check=False, timeout=1_800)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-20_000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT, cwd=folder, HATCH_BUILD_HOOK_ENABLE_CUSTOM="true")
    [path] = folder.glob("*.whl")
    return path


def test_the_compiled_wheel_is_for_this_python_and_holds_the_sources_too(wheel: Path) -> None:
    assert f"-cp{sys.version_info.major}{sys.version_info.minor}-" in wheel.name
    assert not wheel.name.endswith("-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    compiled = {name.partition(".")[0] for name in packed if name.endswith((".so", ".pyd"))}
    assert {"otel_toolcall_eval/pipeline", "otel_toolcall_eval/model/trace", "otel_toolcall_eval/wire/otlp_protobuf"} <= compiled
    assert {"otel_toolcall_eval/pipeline.py", "otel_toolcall_eval/py.typed"} <= packed


def test_the_compiled_core_passes_the_tests_of_its_rooms(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "environment", cwd=tmp_path)
    python = tmp_path / "environment" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", f"{wheel}[test]", cwd=tmp_path)
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)  # pytest's settings; the package itself is not here
    where = run(python, "-c", "from otel_toolcall_eval.model import trace; print(trace.__file__)", cwd=tmp_path)
    assert where.strip().endswith((".so", ".pyd"))
    left_out = ["-k", " and ".join(f"not {name}" for name in UNLIKE)]
    tests = [f"tests/{name}" for name in (*ROOMS, *WHOLE, *EDGES)]
    run(python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *left_out, *tests, cwd=tmp_path)

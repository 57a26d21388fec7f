"""What a sidecar asks of the system, tried in processes of their own."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys

import pytest

from otel_toolcall_eval.sidecar import process_limits

FILES = """
import resource
from otel_toolcall_eval.sidecar.process_limits import raise_file_limit
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
print(raise_file_limit(), raise_file_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0], hard)
"""


def test_the_limit_on_files_is_raised_as_far_as_allowed_and_never_lowered() -> None:
    said = subprocess.run([sys.executable, "-c", FILES], check=True, capture_output=True, text=True).stdout
    first, again, soft, hard = map(int, said.split())
    assert first == again == soft
    assert 100 < soft <= (65_536 if hard < 0 else hard)


@pytest.mark.parametrize(("answer", "told"), [(1, True), (0, False)])
def test_large_blocks_go_back_where_the_c_library_can_be_told(monkeypatch: pytest.MonkeyPatch, answer: int, told: bool) -> None:  # noqa: FBT001 - a column
    asked: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, option: int, value: int) -> int:
            asked.append((option, value))
            return answer

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library())
    assert process_limits.return_large_blocks() is told
    assert asked == [(-3, 256 << 10)]  # M_MMAP_THRESHOLD


def test_another_system_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert process_limits.return_large_blocks() is False


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert process_limits.return_large_blocks() is False


GARBAGE = """
import gc
from otel_toolcall_eval.sidecar.process_limits import collect_garbage_seldom
before = gc.get_threshold()
collect_garbage_seldom()
print(gc.get_freeze_count() > 1000, gc.isenabled(), gc.get_threshold()[0] > before[0], gc.get_threshold()[1:] == before[1:])
class Ring: pass
ring = Ring(); ring.self = ring; gone = __import__("weakref").ref(ring); del ring
kept = [[] for _ in range(100_000)]
print(gone() is None)
"""


def test_garbage_is_collected_seldom_but_collected() -> None:
    said = subprocess.run([sys.executable, "-c", GARBAGE], check=True, capture_output=True, text=True).stdout
    assert said.split() == ["True"] * 5


def test_the_collector_is_off_while_parts_are_built_and_on_again_after_a_failure() -> None:
    def fail() -> None:
        message = f"no parts, enabled: {gc.isenabled()}"
        raise ValueError(message)

    with pytest.raises(ValueError, match="no parts, enabled: False"), process_limits.without_collector():
        fail()
    assert gc.isenabled()


KEPT = """
import gc
from otel_toolcall_eval.sidecar.process_limits import collect_garbage_seldom, keep_what_is_loaded, loading_more, without_collector
class Ring: pass
def made():
    ring = Ring(); ring.self = ring
    return __import__("weakref").ref(ring)
with without_collector():
    loaded = made()
    keep_what_is_loaded()
    built = made()
    collect_garbage_seldom()
print(gc.isenabled(), loaded() is None, built() is None)
with loading_more():
    later = made()
gc.collect()
print(gc.isenabled(), later() is None)
"""


def test_garbage_of_loading_stays_and_that_of_building_goes() -> None:
    said = subprocess.run([sys.executable, "-c", KEPT], check=True, capture_output=True, text=True).stdout
    assert said.split() == ["True", "False", "True", "True", "False"]

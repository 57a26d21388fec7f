"""Where Zstandard comes from, and where there is none."""

from __future__ import annotations

from otel_toolcall_eval.sidecar.zstandard import zstandard_packer


def test_without_it_there_is_no_packer_and_the_first_that_is_there_is_taken() -> None:
    assert zstandard_packer(("nowhere.zstd", "neither.zstd")) is None
    assert zstandard_packer(()) is None
    assert zstandard_packer(("nowhere.zstd", "backports.zstd", "neither.zstd")) is not None

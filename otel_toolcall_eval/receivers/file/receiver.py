"""Reads recorded OTLP traces, and the logs beside them, from files, folders and standard input, for the command line.

What a file holds is told by its content: one OTLP/JSON document; JSON lines, one request each, as the Collector's file exporter writes; one
request in protobuf; the Collector's protobuf files, each request behind its length; gzip of any. Logs are read from JSON alone: in protobuf
nothing tells them from traces.
Lines and records are read one by one, so a large file needs no more memory than its largest request. A bad one is reported and the others
are read. Nothing raises: whatever can't be used becomes a Problem.
"""

from __future__ import annotations

import io
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.errors import DecodeError, Problem
from otel_toolcall_eval.otlp import json_logs, json_traces, protobuf_traces
from otel_toolcall_eval.otlp.limits import UNLIMITED
from otel_toolcall_eval.receivers.file.format import (
    HEAD_BYTES,
    LENGTH_BYTES,
    ForeignFormat,
    Format,
    foreign_document,
    foreign_file,
    foreign_text,
    format_of,
)
from otel_toolcall_eval.receivers.file.stream import STANDARD_INPUT, open_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_toolcall_eval.model.trace import Projection
    from otel_toolcall_eval.otlp.decoded import DecodedTraces
    from otel_toolcall_eval.otlp.decoded_logs import DecodedLogs

MAX_DOCUMENT_BYTES = 512 << 20
"""Largest document, line or record; its decoded form takes about five times as much."""

_SHOWN_PROBLEMS = 20  # of one file; a folder of logs by mistake must not print a million lines
_RECORD_AGAIN = "record the traces again"


def read_traces(
    path: str | Path,
    projection: Projection,
    *,
    problems: list[Problem],
    progress: Callable[[int], None] | None = None,
    logs: Callable[[DecodedLogs], None] | None = None,
) -> Iterator[DecodedTraces]:
    """Yield the requests of a file, of every file below a folder in the order of their names, or of standard input.

    Args:
        path: file, folder, or ``-``.
        projection: which attributes and events are kept.
        problems: gets what could not be used, with ``file:line``; read it when the iteration is over. In a folder, files that hold no
            traces in any form are passed over.
        progress: gets the number of bytes just read, packed as they are on disk.
        logs: gets the log records of each request that holds some; without it they are passed over.
    """
    if str(path) != STANDARD_INPUT and Path(path).is_dir():
        yield from _read_folder(Path(path), projection, problems, progress, logs)
    else:
        yield from _File(str(path), projection, problems, logs).read(progress)


def _read_folder(
    folder: Path,
    projection: Projection,
    problems: list[Problem],
    progress: Callable[[int], None] | None,
    logs: Callable[[DecodedLogs], None] | None,
) -> Iterator[DecodedTraces]:
    spans = 0
    found: list[Problem] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(parent, name) for name in sorted(names)):
            if path.is_file():  # a pipe would never end
                for decoded in _File(str(path), projection, found, logs, catching=True).read(progress):
                    spans += decoded.received
                    yield decoded
    if not spans and not found:
        found.append(Problem(where=str(folder), what="no OTLP traces in this folder", fix="name a file or folder with recorded traces"))
    problems.extend(found)


class _File:
    """Reads one file."""

    def __init__(
        self,
        path: str,
        projection: Projection,
        problems: list[Problem],
        logs: Callable[[DecodedLogs], None] | None,
        *,
        catching: bool = False,
    ) -> None:
        self._path = path
        self._name = "standard input" if path == STANDARD_INPUT else path
        self._projection = projection
        self._problems = problems
        self._logs = logs
        self._log_records = 0
        self._passing_over = catching
        self._passed_over = False
        self._reported = 0
        self._spans = 0

    def read(self, progress: Callable[[int], None] | None) -> Iterator[DecodedTraces]:
        try:
            with open_stream(self._path, progress) as stream:
                for decoded, where in self._requests(stream):
                    self._spans += decoded.received
                    if decoded.rejected:
                        self._report(where, decoded.reasons, "mend the producer of these spans")
                    yield decoded
        except (EOFError, zlib.error):
            self._report(self._name, "the gzip data is damaged or cut off", _RECORD_AGAIN)
        except OSError as error:
            self._report(
                self._name, f"can't be read: {(error.strerror or 'damaged gzip data').lower()}", "check the path and its permissions"
            )
        if self._reported > _SHOWN_PROBLEMS:
            hidden = self._reported - _SHOWN_PROBLEMS
            self._problems.append(Problem(where=self._name, what=f"{hidden} more problems of this kind", fix="mend the first ones"))
        elif not (self._spans or self._log_records or self._reported or self._passed_over):
            self._report(self._name, "no spans in it", "record traces while the agent runs")

    def _report(self, where: str, what: str, fix: str) -> None:
        self._reported += 1
        if self._reported <= _SHOWN_PROBLEMS:
            self._problems.append(Problem(where=where, what=what, fix=fix))

    def _report_foreign(self, where: str, foreign: ForeignFormat) -> None:
        if self._passing_over and not foreign.traces:
            self._passed_over = True
        else:
            self._report(where, foreign.what, foreign.fix)

    def _report_error(self, where: str, error: DecodeError) -> None:
        problem = error.problems[0]
        self._report(where, f"{problem.where}: {problem.what}", _RECORD_AGAIN)

    def _requests(self, stream: io.BufferedReader) -> Iterator[tuple[DecodedTraces, str]]:
        head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
        match format_of(head):
            case Format.JSON:
                yield from self._json(stream, head)
            case Format.PROTOBUF:
                yield from self._protobuf(stream.read(MAX_DOCUMENT_BYTES + 1), self._name)
            case Format.EITHER:
                yield from self._either(stream.read(MAX_DOCUMENT_BYTES + 1), head)
            case Format.RECORDS:
                yield from self._records(stream)
            case Format.FOREIGN if head.strip():
                self._report_foreign(self._name, foreign_file(head))
            case Format.FOREIGN:
                pass  # empty: reported as a file without spans

    def _protobuf(self, message: bytes, where: str) -> Iterator[tuple[DecodedTraces, str]]:
        if len(message) > MAX_DOCUMENT_BYTES:
            self._report(where, f"larger than {MAX_DOCUMENT_BYTES >> 20} MiB", "split it into several requests")
            return
        try:
            yield protobuf_traces.decode_traces(message, self._projection, limits=UNLIMITED), where
        except DecodeError:
            self._report(where, "not an OTLP request in protobuf, or cut off", _RECORD_AGAIN)

    def _either(self, content: bytes, head: bytes) -> Iterator[tuple[DecodedTraces, str]]:
        try:
            yield protobuf_traces.decode_traces(content, self._projection, limits=UNLIMITED), self._name
        except DecodeError:
            yield from self._json(io.BytesIO(content), head)

    def _records(self, stream: io.BufferedReader) -> Iterator[tuple[DecodedTraces, str]]:
        number = 0
        while length := stream.read(LENGTH_BYTES):
            number += 1
            where = f"{self._name}:record {number}"
            size = int.from_bytes(length)
            record = stream.read(min(size, MAX_DOCUMENT_BYTES + 1))
            if len(length) < LENGTH_BYTES or len(record) < min(size, MAX_DOCUMENT_BYTES):
                self._report(where, "the last record is cut off", _RECORD_AGAIN)
                return
            yield from self._protobuf(record, where)

    def _json(self, stream: io.BufferedReader | io.BytesIO, head: bytes) -> Iterator[tuple[DecodedTraces, str]]:
        first, number = stream.readline(MAX_DOCUMENT_BYTES + 1), 1
        while first and not first.strip():
            first, number = stream.readline(MAX_DOCUMENT_BYTES + 1), number + 1
        try:
            document = json_traces.parse_json(first)
        except DecodeError:
            yield from self._document(first + stream.read(MAX_DOCUMENT_BYTES + 1 - len(first)), head, first_line=number)
            return
        yield from self._request(document, f"{self._name}:{number}")
        yield from self._lines(stream, number)

    def _lines(self, stream: io.BufferedReader | io.BytesIO, number: int) -> Iterator[tuple[DecodedTraces, str]]:
        """Yield the requests of JSON lines, of which ``number`` were read already."""
        while line := stream.readline(MAX_DOCUMENT_BYTES + 1):
            number += 1
            where = f"{self._name}:{number}"
            if len(line) > MAX_DOCUMENT_BYTES:
                self._report(where, f"the line is longer than {MAX_DOCUMENT_BYTES >> 20} MiB", "split it into several requests")
                return
            if not line.strip():
                continue
            try:
                document = json_traces.parse_json(line)
            except DecodeError as error:
                if line.endswith(b"\n"):
                    self._report_error(where, error)
                else:
                    self._report(where, "the last line is cut off", f"{_RECORD_AGAIN}, or remove the line")
                continue
            yield from self._request(document, where)

    def _document(self, text: bytes, head: bytes, *, first_line: int) -> Iterator[tuple[DecodedTraces, str]]:
        """Yield the request that stretches over several lines, or those among the lines that can be used."""
        if len(text) > MAX_DOCUMENT_BYTES:
            self._report(self._name, f"larger than {MAX_DOCUMENT_BYTES >> 20} MiB as one document", "write one request a line")
            return
        try:
            document = json_traces.parse_json(text)
        except DecodeError as error:
            yield from self._broken_document(text, head, first_line, error)
        else:
            yield from self._request(document, f"{self._name}:{first_line}")

    def _broken_document(self, text: bytes, head: bytes, first_line: int, error: DecodeError) -> Iterator[tuple[DecodedTraces, str]]:
        foreign = foreign_text(head)
        if foreign is not None:
            self._report_foreign(self._name, foreign)
        elif any(map(_is_request, io.BytesIO(text))):
            yield from self._lines(io.BytesIO(text), first_line - 1)
        elif error.problems[0].what == json_traces.ENDS_EARLY:
            self._report(self._name, "the document is cut off", _RECORD_AGAIN)
        else:
            self._report_error(self._name, error)

    def _request(self, document: object, where: str) -> Iterator[tuple[DecodedTraces, str]]:
        foreign = foreign_document(document)
        if foreign is not None:
            self._report_foreign(where, foreign)
            return
        if self._logs is not None and isinstance(document, dict) and "resourceLogs" in document:
            self._read_logs(document, where, self._logs)
        if isinstance(document, dict) and "resourceSpans" not in document and "resource_spans" not in document:
            return  # logs or metrics, which the Collector may write into the same file
        try:
            decoded = json_traces.decode_document(document, self._projection, limits=UNLIMITED)
        except DecodeError as error:
            self._report_error(where, error)
            return
        yield decoded, where

    def _read_logs(self, document: object, where: str, logs: Callable[[DecodedLogs], None]) -> None:
        try:
            decoded = json_logs.decode_document(document, self._projection, limits=UNLIMITED)
        except DecodeError as error:
            self._report_error(where, error)
            return
        self._log_records += decoded.received
        logs(decoded)


def _is_request(line: bytes) -> bool:
    """Tell whether a line is a whole request, so that the lines around it are meant as requests too."""
    if b"resourceSpans" not in line:
        return False
    try:
        document = json_traces.parse_json(line)
    except DecodeError:
        return False
    return isinstance(document, dict) and "resourceSpans" in document

"""Requests that are odd in what stands around the body."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING

from tests.receivers.hostile.rows import GOOD, GOOD_JSON, HEALTHY, JSON, Row, chunks, http

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNKED = b"Transfer-Encoding: chunked\r\n"
GZIP = b"Content-Encoding: gzip\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(GOOD)
PACKED = gzip.compress(GOOD)
SECRET = b"secret-canary"


def taken(id: str, sent: bytes, *, goes_on: bool = True, spans: int = 1) -> Row:  # noqa: A002 - the column's name
    return Row(id=id, sent=sent, status=200, spans=spans, goes_on=goes_on)


def refused(id: str, sent: bytes, status: int, reason: str = "unsupported", *, json: bool = False, goes_on: bool = True) -> Row:  # noqa: A002
    kind = {"answer": JSON} if json else {}
    return Row(id=id, sent=sent, status=status, refused=reason, goes_on=goes_on, **kind)  # type: ignore[arg-type] # one of its fields


def not_http(id: str, sent: bytes, status: int = 400) -> Row:  # noqa: A002
    """Return what the parser refuses: the connection can't be trusted any more."""
    return Row(id=id, sent=sent, status=status, answer=JSON, refused="undecodable")


def rows() -> Iterator[Row]:
    """Yield all of them."""
    for group in (paths, methods, versions, hosts, media_types, encodings, lengths, transfers, headers, not_http_at_all, several, slow):
        yield from group()


def paths() -> Iterator[Row]:
    def at(path: bytes) -> bytes:
        return http(line=b"POST " + path + b" HTTP/1.1")

    for name, path in {
        "doubled slash": b"//v1/traces",
        "slash behind": b"/v1/traces/",
        "dot segment": b"/./v1/traces",
        "double dot": b"/x/../v1/traces",
        "climbing": b"/../../../../etc/passwd",
        "capitals": b"/V1/Traces",
        "longer": b"/v1/tracesX",
        "shorter": b"/v1/trace",
        "other version": b"/v2/traces",
        "root": b"/",
        "semicolon": b"/v1/traces;a=b",
        "encoded zero": b"/v1/traces%00",
        "encoded line end": b"/v1/traces%0d%0aX-A:%20b",
        "broken escape": b"/v1/traces%zz",
        "doubly encoded": b"/v1/%2574races",
        "profiles": b"/v1development/profiles",
        "secret in it": b"/" + SECRET,
    }.items():
        yield refused(f"path: {name}", at(path), 404)
    # as the Collector does: escapes are undone, a query and a fragment are passed over
    for name, path in {
        "escaped letter": b"/v1/%74races",
        "escaped slash": b"/v1%2ftraces",
        "query": b"/v1/traces?a=b",
        "fragment": b"/v1/traces#a",
        "absolute": b"http://x/v1/traces",
        "absolute, of another host": b"http://elsewhere.example/v1/traces",
        "long query": b"/v1/traces?" + b"a" * 7000,
    }.items():
        yield taken(f"path: {name}", at(path))
    for name, path in {
        "zero": b"/v1/traces\0",
        "not ASCII": b"/v1/tr\xc3\xa4ces",
        "blank": b"/v1/traces x",
        "backslashes": b"\\v1\\traces",
        "no slash": b"v1/traces",
        "empty": b"",
        "star": b"*",
        "absolute with a broken port": b"http://x:99999/v1/traces",
        "absolute with a broken address": b"http://[::1/v1/traces",
    }.items():
        yield not_http(f"path: {name}", at(path))
    yield not_http("path: too long", at(b"/" + b"a" * 9000), 431)


def methods() -> Iterator[Row]:
    for method in (b"GET", b"PUT", b"PATCH", b"DELETE", b"TRACE", b"OPTIONS", b"PROPFIND", b"QUERY"):
        yield refused(f"method: {method.decode()}", http(line=method + b" /v1/traces HTTP/1.1"), 405)
    yield Row(id="method: HEAD", sent=http(b"", b"HEAD /v1/traces HTTP/1.1"), status=405, refused="unsupported", goes_on=True)
    yield refused("method: overridden", http(line=b"GET /v1/traces HTTP/1.1", extra=b"X-HTTP-Method-Override: POST\r\n"), 405)
    yield refused("method: CONNECT", http(b"", b"CONNECT x:80 HTTP/1.1", content_type=None), 404, json=True)
    yield refused("method: OPTIONS for all", http(b"", b"OPTIONS * HTTP/1.1", content_type=None), 404, json=True)
    for method in (b"post", b"FOO", b"P(ST", b"", b"\x00"):
        yield not_http(f"method: {method!r}", http(line=method + b" /v1/traces HTTP/1.1"))


def versions() -> Iterator[Row]:
    yield taken("version: 1.0", http(line=b"POST /v1/traces HTTP/1.0"), goes_on=False)
    yield taken("version: 1.0 kept alive", http(line=b"POST /v1/traces HTTP/1.0", extra=b"Connection: keep-alive\r\n"))
    yield taken("version: 1.0 in chunks", http(chunks(GOOD), b"POST /v1/traces HTTP/1.0", CHUNKED, length=False), goes_on=False)
    yield refused("version: 0.9", b"GET /v1/traces\r\n\r\n", 505, json=True, goes_on=False)
    for version in (b"HTTP/1.2", b"HTTP/9.9", b"HTTX/1.1", b"http/1.1", b"HTTP/1", b"HTTP/1.1x", b"HTTP/11.1", b"HTTP/3"):
        yield not_http(f"version: {version.decode()}", http(line=b"POST /v1/traces " + version))
    yield taken(
        "version: upgrade to h2c", http(extra=b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n")
    )
    socket_headers = (
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    )
    yield refused("version: upgrade to a web socket", http(b"", b"GET /v1/traces HTTP/1.1", socket_headers), 405)


def hosts() -> Iterator[Row]:
    yield not_http("host: none", http(host=b""))
    yield not_http("host: two", http(host=b"Host: x\r\nHost: y\r\n"))
    yield taken("host: empty", http(host=b"Host:\r\n"))
    yield taken("host: another", http(host=b"Host: elsewhere.example:99999\r\n"))


def media_types() -> Iterator[Row]:
    for name, kind in {
        "capitals": b"APPLICATION/X-PROTOBUF",
        "parameter": b'application/x-protobuf; a="x;y"',
        "semicolon": b"application/x-protobuf;",
        "blanks": b"  application/x-protobuf  ",
    }.items():
        yield taken(f"media type: {name}", http(content_type=kind))
    yield Row(
        id="media type: JSON with charset",
        sent=http(GOOD_JSON, content_type=b"application/json;charset=UTF-8"),
        status=200,
        answer=JSON,
        spans=1,
        goes_on=True,
    )
    for name, other in {
        "none": None,
        "empty": b"",
        "junk": b";;;",
        "any": b"*/*",
        "list": b"application/x-protobuf, application/json",
        "form": b"application/x-www-form-urlencoded",
        "multipart": b"multipart/form-data; boundary=x",
        "gRPC": b"application/grpc",
        "protobuf without x": b"application/protobuf",
        "problem": b"application/problem+json",
        "text": b"text/plain",
        "bytes": b"application/octet-stream",
        "not ASCII": b"application/\xff",
        "secret": b"application/" + SECRET,
    }.items():
        yield refused(f"media type: {name}", http(content_type=other), 415, json=True)
    yield not_http("media type: two", http(extra=b"Content-Type: application/json\r\n"))
    utf16 = GOOD_JSON.decode().encode("utf-16")
    yield refused("media type: UTF-16", http(utf16, content_type=b"application/json; charset=utf-16"), 400, "undecodable", json=True)


def encodings() -> Iterator[Row]:
    yield taken("encoding: capitals", http(PACKED, extra=b"Content-Encoding: GZIP\r\n"))
    yield taken("encoding: x-gzip", http(PACKED, extra=b"Content-Encoding: x-gzip\r\n"))
    yield taken("encoding: identity", http(extra=b"Content-Encoding: identity\r\n"))
    yield taken("encoding: empty", http(extra=b"Content-Encoding:\r\n"))
    for coding in (b"deflate", b"br", b"zstd", b"snappy", b"lz4", b"compress", b"gzip, gzip", b"gzip, identity", b"*", SECRET):
        yield refused(f"encoding: {coding.decode()}", http(PACKED, extra=b"Content-Encoding: " + coding + b"\r\n"), 415)
    yield refused("encoding: gzip twice", http(gzip.compress(PACKED), extra=GZIP + GZIP), 415)
    yield refused("encoding: gzip and another", http(PACKED, extra=GZIP + b"Content-Encoding: br\r\n"), 415)
    yield taken("gzip: zlib", http(zlib.compress(GOOD), extra=GZIP))
    yield taken("gzip: members", http(gzip.compress(GOOD[:9]) + gzip.compress(GOOD[9:]), extra=GZIP))
    yield taken("gzip: an empty member", http(gzip.compress(b"") + PACKED, extra=GZIP))
    yield taken("gzip: zeros behind", http(PACKED + bytes(9), extra=GZIP))
    yield taken("gzip: a name in its header", http(PACKED[:3] + b"\x08" + PACKED[4:10] + b"name\0" + PACKED[10:], extra=GZIP))
    yield taken("gzip: an empty body", http(b"", extra=GZIP), spans=0)
    yield taken("gzip: in chunks", http(chunks(PACKED[:5], PACKED[5:]), extra=GZIP + CHUNKED, length=False))
    for name, body in {
        "plain": GOOD,
        "cut": PACKED[:-3],
        "cut in its header": PACKED[:5],
        "garbage behind": PACKED + b"garbage",
        "wrong checksum": PACKED[:-8] + bytes(8),
        "reserved flags": PACKED[:3] + b"\x80" + PACKED[4:],
        "another method": PACKED[:2] + b"\x07" + PACKED[3:],
        "a broken block": PACKED[:12] + b"\xff" * 6 + PACKED[18:],
        "twice": gzip.compress(PACKED),
        "bare deflate": zlib.compress(GOOD)[2:-4],
        "1001 members": gzip.compress(b"") * 1001,
    }.items():
        yield refused(f"gzip: {name}", http(body, extra=GZIP), 400, "undecodable")
    yield refused("gzip: not announced", http(PACKED), 400, "undecodable")
    yield refused("gzip: a bomb", http(gzip.compress(bytes(8 << 20)), extra=GZIP), 413, "too_large")
    yield refused("gzip: a bomb of members", http(gzip.compress(bytes(1 << 20)) * 8, extra=GZIP), 413, "too_large")


def lengths() -> Iterator[Row]:
    def of(value: bytes) -> bytes:
        return http(extra=b"Content-Length: " + value + b"\r\n", length=False)

    for name, value in {
        "negative": b"-5",
        "plus": b"+%d" % len(GOOD),
        "hexadecimal": b"0x10",
        "blank within": b"1 0",
        "fraction": b"10.0",
        "exponent": b"1e2",
        "empty": b"",
        "words": b"ten",
        "list": b"%d, %d" % (len(GOOD), len(GOOD)),
        "other digits": "٣".encode(),
        "beyond 64 bits": b"9" * 30,
    }.items():
        yield not_http(f"length: {name}", of(value))
    yield not_http("length: twice the same", http(extra=LENGTH))
    yield not_http("length: twice", http(extra=b"Content-Length: 3\r\n"))
    yield not_http("length: missing", http(length=False))  # no body, then, and what follows is no request
    yield not_http("length: shorter than the body", of(b"%d" % (len(GOOD) - 5)))
    yield taken("length: zeros in front", of(b"000%d" % len(GOOD)))
    yield taken("length: blanks around", of(b"   %d  " % len(GOOD)))
    yield taken("length: 0", http(b""), spans=0)
    for called, huge in {"a terabyte": b"1000000000000", "2^63": b"9223372036854775808", "one too many": b"%d" % ((1 << 20) + 1)}.items():
        yield refused(f"length: {called}", of(huge), 413, "too_large", goes_on=False)


def transfers() -> Iterator[Row]:
    def chunked(body: bytes, extra: bytes = CHUNKED) -> bytes:
        return http(body, extra=extra, length=False)

    yield taken("chunks: two", chunked(chunks(GOOD[:7], GOOD[7:])))
    yield taken("chunks: of one byte", chunked(chunks(*(GOOD[at : at + 1] for at in range(len(GOOD))))))
    yield taken("chunks: none", chunked(chunks()), spans=0)
    yield taken("chunks: extension", chunked(b"%x;a=b\r\n" % len(GOOD) + GOOD + b"\r\n0\r\n\r\n"))
    yield taken("chunks: capitals in the size", chunked(b"%X\r\n" % len(GOOD) + GOOD + b"\r\n0\r\n\r\n"))
    yield taken("chunks: zeros before the size", chunked(b"000%x\r\n" % len(GOOD) + GOOD + b"\r\n0\r\n\r\n"))
    yield taken("chunks: trailers", chunked(chunks(GOOD, end=b"0\r\nX-A: b\r\n\r\n")))
    yield taken("chunks: in capitals", chunked(chunks(GOOD), b"Transfer-Encoding: CHUNKED\r\n"))
    for name, body in {
        "no size": b"zz\r\nabc\r\n0\r\n\r\n",
        "negative": b"-1\r\nabc\r\n0\r\n\r\n",
        "0x": b"0x5\r\nabcde\r\n0\r\n\r\n",
        "beyond 64 bits": b"f" * 18 + b"\r\nabc\r\n0\r\n\r\n",
        "too long": b"3\r\nabcdef\r\n0\r\n\r\n",
        "bare line feeds": b"%x\n" % len(GOOD) + GOOD + b"\n0\n\n",
        "blank before the size": b" 3\r\nabc\r\n0\r\n\r\n",
    }.items():
        yield not_http(f"chunks: {name}", chunked(body))
    for name, value in {
        "identity": b"identity",
        "gzip": b"gzip",
        "chunked in the middle": b"chunked, gzip",
        "unknown": b"xchunked",
        "a control character": b"\x0bchunked",
        "in quotes": b'"chunked"',
        "two": b"chunked\r\nTransfer-Encoding: chunked",
        "two, one cloaked": b"chunked\r\nTransfer-Encoding: identity",
    }.items():
        yield not_http(f"transfer: {name}", chunked(chunks(GOOD), b"Transfer-Encoding: " + value + b"\r\n"))
    yield not_http("transfer: blank before the colon", chunked(chunks(GOOD), b"Transfer-Encoding : chunked\r\n"))
    yield not_http("smuggling: chunks and length", http(chunks(GOOD), extra=CHUNKED))
    yield not_http("smuggling: a request behind an end of chunks", chunked(b"0\r\n\r\n" + HEALTHY, CHUNKED + b"Content-Length: 5\r\n"))
    yield not_http("smuggling: a length in the trailers", chunked(chunks(GOOD, end=b"0\r\nContent-Length: 5\r\nX\r\n\r\n")))
    yield refused("transfer: gzip, chunked", chunked(chunks(PACKED), b"Transfer-Encoding: gzip, chunked\r\n"), 400, "undecodable")


def headers() -> Iterator[Row]:
    for name, extra in {
        "folded": b"X-A: b\r\n  c\r\n",
        "no colon": b"X-A\r\n",
        "blank in the name": b"X A: b\r\n",
        "no name": b": b\r\n",
        "zero": b"X-A: a\0b\r\n",
        "return": b"X-A: a\rb\r\n",
        "line feed": b"X-A: a\nb\r\n",
        "name not ASCII": b"X-\xc3\xa4: b\r\n",
        "1000 of them": b"".join(b"X-%d: a\r\n" % number for number in range(1000)),
        "more than 64": b"".join(b"X-%d: a\r\n" % number for number in range(65)),
    }.items():
        yield not_http(f"header: {name}", http(extra=extra))
    yield not_http("header: 9 KB", http(extra=b"X-A: " + b"a" * 9000 + b"\r\n"), 431)
    yield not_http("header: a name of 9 KB", http(extra=b"X" * 9000 + b": a\r\n"), 431)
    endless = b"POST /v1/traces HTTP/1.1\r\n" + b"".join(b"X-%d: " % number + b"a" * 8000 + b"\r\n" for number in range(10))
    yield refused("headers: 80 KB, and no end", endless, 431, json=True, goes_on=False)
    for name, extra in {
        "not ASCII": b"X-A: \xff\xfe\r\n",
        "8 KB": b"X-A: " + b"a" * 8000 + b"\r\n",
        "60 of them": b"".join(b"X-%d: a\r\n" % number for number in range(60)),
        "claims another address": b"X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n",
        "names a hop": b"Connection: Content-Length\r\n",
        "expects 100": b"Expect: 100-continue\r\n",
        "asks for a range": b"Range: bytes=0-1\r\nIf-None-Match: *\r\n",
        "asks for another answer": b"Accept: text/html\r\nAccept-Encoding: br\r\n",
        "a cookie": b"Cookie: a=" + SECRET + b"\r\n",
    }.items():
        yield taken(f"header: {name}", http(extra=extra))
    yield refused("header: expects a miracle", http(extra=b"Expect: 200-ok\r\n"), 417)
    yield taken("header: closes", http(extra=b"Connection: close\r\n"), goes_on=False)


def not_http_at_all() -> Iterator[Row]:
    for name, sent in {
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        "all bytes": bytes(range(256)),
        "zeros": bytes(1000),
        "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
        "SMTP": b"EHLO x\r\nMAIL FROM:<a>\r\n",
        "a proxy's line": b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + HEALTHY,
        "protobuf alone": GOOD + b"\r\n\r\n",
        "JSON alone": GOOD_JSON + b"\r\n\r\n",
        "bare line feeds": HEALTHY.replace(b"\r\n", b"\n"),
        "a secret": SECRET + b"\r\n\r\n",
    }.items():
        yield not_http(f"no HTTP/1: {name}", sent)
    yield taken("no HTTP/1: empty lines first", b"\r\n\r\n" + HEALTHY)


def several() -> Iterator[Row]:
    yield not_http("several: one broken, in the same packet", HEALTHY + b"secret\r\n\r\n")  # the parser gives up on all of it


def slow() -> Iterator[Row]:
    cut: dict[str, object] = {"status": None, "slow": True}
    yield Row(id="slow: nothing", sent=b"", **cut)  # type: ignore[arg-type] # its fields
    cut["refused"] = "too_slow"
    yield Row(id="slow: half a line", sent=b"POST /v1/tr", **cut)  # type: ignore[arg-type]
    yield Row(id="slow: headers without end", sent=HEALTHY.partition(b"\r\n\r\n")[0], **cut)  # type: ignore[arg-type]
    yield Row(id="slow: empty lines", sent=b"\r\n" * 1000, **cut)  # type: ignore[arg-type]
    late = {"status": 408, "refused": "too_slow", "slow": True}
    yield Row(id="slow: half a body", sent=http(GOOD + b"abc")[:-3], **late)  # type: ignore[arg-type]
    yield Row(id="slow: no body", sent=HEALTHY.removesuffix(GOOD), **late)  # type: ignore[arg-type]
    yield Row(id="slow: half of the chunks", sent=http(b"5\r\nabcde\r\n", extra=CHUNKED, length=False), **late)  # type: ignore[arg-type]
    yield Row(id="slow: half of gzip", sent=http(PACKED, extra=GZIP)[:-5], **late)  # type: ignore[arg-type]

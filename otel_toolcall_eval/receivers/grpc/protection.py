"""TLS and tokens of a gRPC server, in the forms that gRPC takes.

Tokens are looked at in an interceptor, so nothing that is ever served escapes it. A call without one gets a handler for a stream of
requests, whatever its client meant: gRPC then does not read the message, and an unknown sender can't make us hold 64 MiB of OTLP.
The health service is open. gRPC reads what it is sent, up to the largest message, before we see that it is too much for it; so what
strangers can make us hold is one message, see ``grpc_health``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, cast

import grpc

from otel_toolcall_eval.receivers.tokens import UnauthenticatedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_toolcall_eval.model.errors import IntakeError
    from otel_toolcall_eval.receivers.tls import Material, ServerTls
    from otel_toolcall_eval.receivers.tokens import Tokens

_OPEN_METHODS = "/grpc.health.v1.Health/"
"""Probes have no token, and learn nothing but whether we serve."""

_AUTHORIZATION = "authorization"


class TokenInterceptor(grpc.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs alone
    """Lets calls pass that have a token. Any thread."""

    def __init__(self, tokens: Tokens, refuse: Callable[[IntakeError, grpc.ServicerContext], NoReturn]) -> None:
        """Ask for one of ``tokens``; ``refuse`` counts and ends a call that has none."""
        self._tokens = tokens
        self._refuse = refuse

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[bytes, bytes] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """Return the handler of the call, or one that refuses it."""
        if handler_call_details.method.startswith(_OPEN_METHODS):
            return continuation(handler_call_details)
        metadata = handler_call_details.invocation_metadata or ()
        try:
            self._tokens.check(next((value for key, value in metadata if key == _AUTHORIZATION), None))
        except UnauthenticatedError as error:
            return self._refusing(error)
        return continuation(handler_call_details)

    def _refusing(self, error: UnauthenticatedError) -> grpc.RpcMethodHandler[bytes, bytes]:
        def refuse(_requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
            self._refuse(error, context)

        return grpc.stream_unary_rpc_method_handler(refuse)


def server_credentials(tls: ServerTls) -> grpc.ServerCredentials:
    """Return credentials that give each new connection what is in force when it comes."""
    given = tls.material

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        """Return what changed since the last connection; None if nothing did. Called for each handshake, on gRPC's threads."""
        nonlocal given
        if tls.material is given:
            return None
        given = tls.material
        return _configuration(given)

    # The stubs do not know that None means "as before". Source: grpc.dynamic_ssl_server_credentials.
    fetch = cast("Callable[[], grpc.ServerCertificateConfiguration]", renewed)
    return grpc.dynamic_ssl_server_credentials(_configuration(given), fetch, require_client_authentication=tls.asks_clients)


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(material.key, material.chain)], root_certificates=material.client_ca)

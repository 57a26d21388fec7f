# The sidecar as an image: docker build --tag otel-toolcall-eval . && docker run --read-only --network container:AGENT otel-toolcall-eval
#
# It listens on the loopback address, as everywhere: give it the agent's network (a pod in Kubernetes, `--network container:` in Docker).
# To be reached from elsewhere, name addresses with OTEL_TOOLCALL_EVAL_LISTEN_GRPC=0.0.0.0:4317 and ..._LISTEN_HTTP=0.0.0.0:4318, and mount what
# protects them: ..._LISTEN_TLS_CERT_FILE, ..._LISTEN_TLS_KEY_FILE, ..._LISTEN_TOKEN_FILE, readable by user 65532. The health check knows the
# certificate by the same variables. In a closed network, ..._LISTEN_INSECURE=true does without.
#
# Policy on pins: here a version line that gets the base's security fixes with each build; a release sets the argument to a digest
# (--build-arg PYTHON_IMAGE=python:3.13-slim-bookworm@sha256:...) and writes it into its notes, so that the release can be built again.
ARG PYTHON_IMAGE=python:3.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY LICENSE README.md pyproject.toml ./
COPY otel_toolcall_eval otel_toolcall_eval
# Without pip of its own, since nothing is installed at run time. Bytecode is made here, since nothing can be written then.
RUN python -m venv --without-pip /opt/otel-toolcall-eval \
    && pip wheel --no-deps --wheel-dir /wheels . \
    && pip --python /opt/otel-toolcall-eval install --compile "$(echo /wheels/*.whl)[patterns,sidecar]"

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="otel-toolcall-eval" \
      org.opencontainers.image.description="Scores the tool calls of AI agents from their OpenTelemetry spans" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/otel-toolcall-eval /opt/otel-toolcall-eval
ENV PATH=/opt/otel-toolcall-eval/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# A number, so that Kubernetes can check runAsNonRoot; no such user has to exist, and it owns no file.
USER 65532:65532
WORKDIR /
# OTLP over gRPC; OTLP over HTTP, /metrics, /livez, /readyz.
EXPOSE 4317 4318
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 CMD ["otel-toolcall-eval", "healthcheck"]
# The exec form, so that the process is PID 1 itself and SIGTERM reaches it: it then decides what is pending and leaves with 0.
ENTRYPOINT ["otel-toolcall-eval"]
CMD ["serve"]

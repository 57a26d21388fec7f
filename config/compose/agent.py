"""The sample agent of ``compose.yaml``: the demonstration's weather agent, run after run, with the OpenTelemetry SDK alone.

It knows nothing of evaluation; where its spans go is said by ``OTEL_EXPORTER_OTLP_ENDPOINT``. Every sixth run misbehaves.
"""

from __future__ import annotations

import asyncio
import os
import signal
from itertools import cycle

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_toolcall_eval.cli.demo_agent.weather_agent import SCENARIOS, SERVICE_NAME

PAUSE_SECONDS = float(os.environ.get("AGENT_PAUSE_SECONDS", "2"))
"""Between two runs."""


async def work(provider: TracerProvider, stopped: asyncio.Event) -> None:
    """Run until stopped."""
    for scenario in cycle(SCENARIOS):
        await scenario.play(provider)
        try:
            await asyncio.wait_for(stopped.wait(), PAUSE_SECONDS)
        except TimeoutError:
            continue
        return


async def main() -> None:
    """Run until SIGTERM or SIGINT, and send what is left."""
    resource = Resource.create({"service.name": SERVICE_NAME, "service.version": os.environ.get("AGENT_VERSION", "1.0.0")})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=1000))
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await work(provider, stopped)
    provider.shutdown()


if __name__ == "__main__":
    asyncio.run(main())

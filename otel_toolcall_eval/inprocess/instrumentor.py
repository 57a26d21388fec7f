"""Without a line of code: ``opentelemetry-instrument`` puts the processor into an agent for which criteria are named.

OpenTelemetry has no entry point for span processors, but loads every ``opentelemetry_instrumentor``, and calls it once providers and
exporters are built. Ours does nothing unless ``OTEL_TOOLCALL_EVAL_CRITERIA``, ``OTEL_TOOLCALL_EVAL_CONFIG`` or the options say what to
evaluate, and imports nothing until then. Whatever is wrong is logged; the application starts in any case.

Two orders matter, and both are the wrong way round by then:

- The exporting processor is registered already. A span with verdicts that is made while the provider shuts down would come after it, so
  ours is put at the head. The SDK has no call for that; we swap the tuple of processors under the SDK's own lock, which is how it adds
  one itself, after looking that both are what they were from 1.39 to 1.45. Otherwise ours is added at the end, with one warning.
- The providers end at exit in the order metrics or logs, then traces; what is evaluated in the last of them is lost. So we end ourselves
  by an exit function that is registered after theirs, and therefore runs before them.

The class looks like a ``BaseInstrumentor`` without being one: deriving from it would make everyone install
``opentelemetry-instrumentation``, and the loader only calls it.
"""

from __future__ import annotations

import atexit
import logging
import os
from typing import TYPE_CHECKING, ClassVar, Self

from otel_toolcall_eval.inprocess.environment_variables import OTEL_TOOLCALL_EVAL_CONFIG, OTEL_TOOLCALL_EVAL_CRITERIA

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from opentelemetry.sdk.trace import SpanProcessor

    from otel_toolcall_eval.inprocess.processor import ToolCallEvalSpanProcessor

_logger = logging.getLogger(__name__)

_PREFIX = "OTEL_TOOLCALL_EVAL_"

PROVIDERS = ("tracer_provider", "meter_provider", "logger_provider")
OPTIONS = ("criteria", "settings_file", *PROVIDERS)
LOADERS_OPTIONS = frozenset({"skip_dep_check", "raise_exception_on_conflict"})
"""What the auto-instrumentation passes to every instrumentor; we instrument no library, so there is nothing to check."""


class ToolCallEvalInstrumentor:
    """Puts the processor into the tracer provider in force. One for each process, as the loaders expect."""

    _instance: ClassVar[Self | None] = None
    _processor: ToolCallEvalSpanProcessor | None
    _provider: object
    _logger_provider: object

    def __new__(cls) -> Self:
        """Return the one instance."""
        if cls._instance is None:
            made = super().__new__(cls)
            made._processor = made._provider = made._logger_provider = None
            cls._instance = made
        return cls._instance

    @property
    def is_instrumented_by_opentelemetry(self) -> bool:
        """Return True if the processor is at work; the loaders ask by this name."""
        return self._processor is not None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing: no library is patched, so none has to be there."""
        return ()

    def instrument(self, **options: object) -> None:
        """Put the processor in, if something says what to evaluate.

        Args:
            **options: ``criteria`` (a path, or a list) and ``settings_file``, as from ``instrumentation/development: python:
                toolcall_eval:`` of ``OTEL_CONFIG_FILE``; paths are relative to the working directory. From code also
                ``tracer_provider``, ``meter_provider`` and ``logger_provider``; the global ones by default.

        Never raises: what is wrong is logged. A second call does nothing, since with a configuration file the loaders call twice.
        """
        if self._processor is not None or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return
        unknown = [name for name in options if name not in OPTIONS and name not in LOADERS_OPTIONS]
        if unknown:
            _logger.warning("toolcall_eval: %s has no effect; its options are %s", ", ".join(map(repr, unknown)), ", ".join(OPTIONS))
        if not _says_what_to_judge(options):
            _tell_of_variables_without_effect()
            return
        try:
            self._instrument(options)
        except Exception as error:  # whatever is wrong with us, the application has to start
            from otel_toolcall_eval.model.errors import ToolCallEvalError  # noqa: PLC0415 - whoever names no criteria does not pay for it

            if isinstance(error, ToolCallEvalError):
                _logger.error("tool calls are not judged, the application runs on: %s", error)  # noqa: TRY400 - place and cure say it all
            else:
                _logger.exception("tool calls are not judged, the application runs on; please report this")

    def uninstrument(self, **_options: object) -> None:
        """Evaluate what is open, end, and leave the provider."""
        processor, provider, logger_provider = self._processor, self._provider, self._logger_provider
        self._processor = self._provider = self._logger_provider = None
        if processor is not None:
            atexit.unregister(processor.shutdown)
            processor.shutdown()
            _take_out(provider, "_active_span_processor", "_span_processors", processor)
            _take_out(logger_provider, "_multi_log_record_processor", "_log_record_processors", processor.log_record_processor)

    def _instrument(self, options: Mapping[str, object]) -> None:
        from opentelemetry import _logs, trace  # noqa: PLC0415 - whoever names no criteria does not pay for what follows

        from otel_toolcall_eval.inprocess.processor import ToolCallEvalSpanProcessor  # noqa: PLC0415

        provider = options.get("tracer_provider") or trace.get_tracer_provider()
        if not hasattr(provider, "add_span_processor"):
            _logger.warning(
                "tool calls are not judged: there is no TracerProvider of the OpenTelemetry SDK (but a %s); "
                "install opentelemetry-distro, which sets one up, or register ToolCallEvalSpanProcessor where the application does",
                type(provider).__name__,
            )
            return
        logger_provider = options.get("logger_provider") or _logs.get_logger_provider()
        given = {name: options[name] for name in PROVIDERS if options.get(name) is not None}
        processor = ToolCallEvalSpanProcessor(
            options.get("criteria") or (),  # type: ignore[arg-type]  # from a file: what is no path is told by its name
            settings_file=options.get("settings_file"),  # type: ignore[arg-type]
            **given,  # type: ignore[arg-type]
        )
        for warning in processor.warnings:
            _logger.warning("%s", warning)
        if not put_first(provider, processor):
            _logger.warning("tool calls are judged after spans are exported, since this SDK is not known; verdicts may be lost at exit")
        if hasattr(logger_provider, "add_log_record_processor"):
            logger_provider.add_log_record_processor(processor.log_record_processor)
        self._processor, self._provider, self._logger_provider = processor, provider, logger_provider
        atexit.register(processor.shutdown)


def _says_what_to_judge(options: Mapping[str, object]) -> bool:
    named = any(os.environ.get(name, "").strip() for name in (OTEL_TOOLCALL_EVAL_CRITERIA, OTEL_TOOLCALL_EVAL_CONFIG))
    return named or bool(options.get("criteria") or options.get("settings_file"))


def _tell_of_variables_without_effect() -> None:
    """Warn of variables of ours, as after a slip in the name of the one that counts; they alone switch nothing on."""
    without_effect = sorted(name for name, text in os.environ.items() if name.startswith(_PREFIX) and text.strip())
    if without_effect:
        _logger.warning(
            "toolcall_eval: %s alone switch nothing on; name criteria with %s", ", ".join(without_effect), OTEL_TOOLCALL_EVAL_CRITERIA
        )


def put_first(provider: object, processor: SpanProcessor) -> bool:
    """Register a processor before all others; returns False if it had to be added at the end, on an SDK that we don't know."""
    processors = getattr(provider, "_active_span_processor", None)
    lock, before = getattr(processors, "_lock", None), getattr(processors, "_span_processors", None)
    if processors is None or lock is None or not isinstance(before, tuple):
        provider.add_span_processor(processor)  # type: ignore[attr-defined]  # the caller looked
        return False
    with lock:
        processors._span_processors = (processor, *processors._span_processors)  # noqa: SLF001 - see the module's docstring
    return True


def _take_out(provider: object, many: str, one: str, processor: object) -> None:
    """Take a processor out of a provider of the SDK; ``many`` is what holds its processors, in ``one``. Left in, it passes all over."""
    processors = getattr(provider, many, None)
    lock = getattr(processors, "_lock", None)
    if lock is not None and isinstance(getattr(processors, one, None), tuple):
        with lock:
            setattr(processors, one, tuple(each for each in getattr(processors, one) if each is not processor))

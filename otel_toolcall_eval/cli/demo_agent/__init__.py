"""The sample of ``otel-toolcall-eval demo``: an agent that reports the weather, its criteria, and runs to evaluate."""

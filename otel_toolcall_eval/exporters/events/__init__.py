"""Verdicts as ``gen_ai.evaluation.result`` log events, and as events on spans."""

"""What Grafana is provisioned with leads from a score to its trace. The files are read as Grafana reads them: as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

PROVISIONING = Path(__file__).resolve().parent.parent.parent / "config" / "grafana" / "provisioning"


def content(folder: str) -> Any:  # noqa: ANN401 - YAML
    return YAML(typ="safe").load((PROVISIONING / folder / "toolcall-eval.yaml").read_text(encoding="utf-8"))


def test_dots_of_the_graphs_open_traces_in_data_sources_that_are_there() -> None:
    sources = {source["uid"]: source for source in content("datasources")["datasources"]}
    (metrics,) = [source for source in sources.values() if source["type"] == "prometheus"]
    leads = metrics["jsonData"]["exemplarTraceIdDestinations"]
    # The name under which our page and the Collector write it.
    assert {lead["name"] for lead in leads} == {"trace_id"}
    assert {sources[lead["datasourceUid"]]["type"] for lead in leads} == {"jaeger", "tempo"}
    assert len({source["name"] for source in sources.values()}) == len(sources)


def test_dashboards_are_read_from_files_and_not_saved_over() -> None:
    (provider,) = content("dashboards")["providers"]
    assert (provider["type"], provider["allowUiUpdates"]) == ("file", False)
    assert provider["options"]["path"].startswith("/")

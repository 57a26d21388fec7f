"""The Grafana dashboards, as code.

In: the names that the sidecar emits. Out: ``../dashboards/*.json``, by ``make dashboards``.
Asks nothing of Grafana or Prometheus; tests hold what it makes against both.
"""

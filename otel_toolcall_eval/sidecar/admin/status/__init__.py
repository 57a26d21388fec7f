"""The status page of a sidecar: recent verdicts and their reasons, open traces, loaded criteria.

In: reports, as an emitter; questions to the worker; requests for pages. Out: pages, and a bounded history, in a file on request.
May not: hold up the evaluating thread, keep whole reports, show recorded values that explanations may not show.
"""

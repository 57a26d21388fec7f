"""The status page of a sidecar: what was judged lately and why, what waits, what is loaded.

In: reports, as an emitter; questions to the worker; requests for pages. Out: pages, and a bounded memory of what was judged, in a file on
request.
May not: hold up the judging thread, keep whole reports, show recorded values that explanations may not show.
"""

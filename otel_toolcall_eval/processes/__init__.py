"""Several processes that judge, behind one that receives: ``workers`` in the settings.

The first process has all that the world sees: listeners, pages, metrics, the status page's memory, the queue of what is passed on. It looks
no further into a request than its trace IDs (``wire.shares``) and hands each trace to one of the others, always the same, over a socket
(``channel``). Those decode, group, judge and send events, each with a journal of its own.
Found by measurement: one process is bound by the interpreter's lock, so a second core is used by a second process only.
Choice: processes are forked before there is any thread, so that settings and criteria need not travel, and modules are shared memory. One
that dies takes all down with it, as a fault of a single process would, so that a supervisor starts all anew. Rejected: starting it again
alone (its counts begin anew, settings may have changed on the disk meanwhile, a fork with threads is none); listeners with SO_REUSEPORT
(a connection sends all its traces to one process, and spans of one trace come over several connections).
In: requests, what settings and criteria make of one process that judges. Out: answers, metrics, rows and lines of all of them as of one.
May not: judge in the first process, or decode a span there unless it is to be shed; build parts from settings, which is the wiring's.
"""

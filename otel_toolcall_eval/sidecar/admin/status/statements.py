"""The statements that make, fill and trim the tables of ``store``."""

from __future__ import annotations

from typing import Final

TABLES: Final = """
CREATE TABLE reports (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    judged_unix_ns INTEGER NOT NULL,
    trace_id BLOB NOT NULL,
    unit BLOB NOT NULL,
    revision INTEGER NOT NULL,
    agent TEXT NOT NULL,
    service TEXT NOT NULL,
    passed INTEGER NOT NULL,
    size INTEGER NOT NULL,
    document BLOB NOT NULL
);
CREATE INDEX reports_trace ON reports (trace_id, unit, number);
CREATE INDEX reports_passed ON reports (passed, number, size);
CREATE TABLE verdicts (
    report INTEGER NOT NULL,
    position INTEGER NOT NULL,
    criteria TEXT NOT NULL,
    evaluator TEXT NOT NULL,
    label TEXT NOT NULL,
    score REAL,
    explanation TEXT NOT NULL,
    PRIMARY KEY (report, position)
) WITHOUT ROWID;
CREATE TRIGGER forgotten AFTER DELETE ON reports BEGIN DELETE FROM verdicts WHERE report = old.number; END;
"""

PROBES: Final = (
    "SELECT number, evaluated_unix_ns, trace_id, unit, revision, agent, service, passed, size, document FROM reports LIMIT 0",
    "SELECT report, position, criteria, evaluator, label, score, explanation FROM verdicts LIMIT 0",
)

ADD_REPORT: Final = """
INSERT INTO reports (judged_unix_ns, trace_id, unit, revision, agent, service, passed, size, document)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
ADD_VERDICT: Final = "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?)"

FORGET_SAME: Final = "DELETE FROM reports WHERE trace_id = ? AND unit = ? AND revision = ?"
FORGET_OLD: Final = "DELETE FROM reports WHERE evaluated_unix_ns < ?"
FORGET_ONE: Final = "DELETE FROM reports WHERE number = ?"
OLDEST: Final = "SELECT number, size FROM reports WHERE passed = ? ORDER BY number LIMIT 1"
TOTALS: Final = "SELECT passed, count(*), sum(size) FROM reports GROUP BY passed"

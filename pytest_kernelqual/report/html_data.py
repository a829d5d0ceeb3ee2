"""What the pages hold of reports: plain values in which no text can steer a browser or deceive a reader."""

from collections.abc import Mapping
from typing import Any

import msgspec

from pytest_kernelqual.judge.evidence import falls_short
from pytest_kernelqual.model.case import id_of
from pytest_kernelqual.model.outcome import EVIDENCE, OUTCOMES
from pytest_kernelqual.model.record import (
    CandidateRecord,
    CaseRecord,
    CommittedRecord,
    Document,
    FixedRecord,
    KernelRecord,
)
from pytest_kernelqual.report.document import failing
from pytest_kernelqual.report.entries import Standing, other_lines, other_reasons, standing_of
from pytest_kernelqual.report.findings import aside
from pytest_kernelqual.report.rows import config_name, speed_up_bounds, undecided, warnings_told

_LARGEST_EXACT = 2**53  # whole numbers beyond lose digits in a browser
_OUTCOME = {outcome: number for number, outcome in enumerate(OUTCOMES)}
_EVIDENCE = {evidence: number for number, evidence in enumerate(EVIDENCE)}
_FAILS, _OWN, _SHORT = 1, 2, 4


def visible(text: str, limit: int) -> str:
    """Return at most `limit` characters of `text`, with escapes in the place of what no reader would see.

    Control and format characters, which could turn the direction of the text around them, and lone surrogates are such.
    """
    if len(text) > limit:
        text = f"{text[:limit]}... ({len(text) - limit} more characters)"
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


def safe(value: Any, limit: int) -> Any:
    """Return a value of JSON with its texts made visible, and its numbers as a browser can hold them."""
    if isinstance(value, str):
        return visible(value, limit)
    if isinstance(value, Mapping):
        return {visible(str(name), limit): safe(item, limit) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [safe(item, limit) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGEST_EXACT:
        return str(value)
    return value


def report_data(name: str, document: Document, limit: int) -> dict[str, Any]:
    """Return what the page shows of one report; `limit` is the longest text."""
    environment = document.environment
    rows = [row for kernel in document.kernels for row in kernel.committed]
    return {
        "name": visible(name, limit),
        "failing": failing(document),
        "complete": document.complete,
        "because": safe(other_reasons(document), limit),
        "problems": safe(document.session_problems, limit),
        "digest": visible(document.digest, limit),
        "environment": safe(msgspec.to_builtins(environment), limit) if environment is not None else None,
        "compared": document.controls.compared,
        "good_rows": sum(row.passed and not undecided(row) for row in rows),
        "warnings": warnings_told(rows),
        "kernels": [_kernel(kernel, limit) for kernel in document.kernels],
    }


def _kernel(kernel: KernelRecord, limit: int) -> dict[str, Any]:
    configs = {record.id: record.config for case in kernel.cases for record in case.candidates}
    places = {id_: place for place, id_ in enumerate(configs)}
    return {
        "kernel": visible(kernel.kernel, limit),
        "nodeid": visible(kernel.nodeid, limit),
        "screen": visible(kernel.screen, limit) if kernel.screen is not None else None,
        "notes": safe(kernel.notes, limit),
        "problem": visible(kernel.problem, limit),
        "candidates": [[visible(id_, limit), safe(config, limit)] for id_, config in configs.items()],
        "cases": [_case(kernel, case, places, limit) for case in kernel.cases],
        "rows": [_row(row, limit) for row in kernel.committed],
    }


def _case(kernel: KernelRecord, case: CaseRecord, places: Mapping[str, int], limit: int) -> dict[str, Any]:
    failures = set(case.failures)
    return {
        "id": visible(case.id, limit),
        "nodeid": visible(case.nodeid, limit),
        "passed": case.passed,
        "failures": safe(other_lines(case), limit),
        "ran_as": safe(case.ran_as, limit),
        "dead": safe(case.dead_axes, limit),
        "aside": [[visible(one.profile, limit), visible(one.set_aside, limit)] for one in aside(case)],
        "fixed": _fixed(case.fixed, limit),
        "candidates": [
            [places[record.id], *_candidate(record, standing_of(kernel, case, record, failures), limit)]
            for record in case.candidates
        ],
        "targets": [
            [
                *safe([target.target, places.get(launch.id, -1), launch.outcome], limit),
                *safe([launch.reason, launch.resources], limit),
            ]
            for target in case.targets
            for launch in target.launches
        ],
    }


def _candidate(record: CandidateRecord, standing: Standing, limit: int) -> list[Any]:
    """Return outcome, evidence, flags, reason and, where there are any, facts."""
    flags = _FAILS * (standing == "failing") | _OWN * record.same_as_fixed | _SHORT * falls_short(record)
    evidence = _EVIDENCE[record.evidence] if record.evidence is not None else -1
    facts = {
        "phase": record.phase,
        "required evidence": record.lacks,
        "input sets": record.seeds,
        "launches": record.launches,
        "runs the program of": record.same_program_as,
        "batch": _batch(record),
        "fragile": record.fragile,
        "resources": record.resources,
        "detail": record.detail,
    }
    more = {name: safe(value, limit) for name, value in facts.items() if value}
    return [_OUTCOME[record.outcome], evidence, flags, visible(record.reason, limit), *([more] if more else [])]


def _batch(record: CandidateRecord | FixedRecord) -> str:
    if record.batch_invariant is None:
        return record.batch_note
    told = "rows have the same bytes alone and in the batch" if record.batch_invariant else "not batch invariant"
    return f"{told}: {record.batch_note}" if record.batch_note else told


def _fixed(fixed: FixedRecord, limit: int) -> dict[str, Any]:
    facts = {
        "reason": fixed.reason,
        "config": fixed.config,
        "oracle": [msgspec.to_builtins(deviation) for deviation in fixed.oracle],
        "batch": _batch(fixed),
        "resources": fixed.resources,
        "detail": fixed.detail,
    }
    return {"outcome": _OUTCOME[fixed.outcome], **{name: safe(value, limit) for name, value in facts.items() if value}}


def _row(row: CommittedRecord, limit: int) -> dict[str, Any]:
    gates = [msgspec.to_builtins(gate) for gate in row.gates]
    return {
        "device": visible(row.device, limit),
        "key": visible(id_of(row.key) if row.key else "all cases", limit),
        "nodeid": visible(row.nodeid, limit),
        "config": visible(config_name(row) or "no row", limit),
        "evidence": row.evidence,
        "verdict": row.verdict,
        "reasons": safe(row.reasons, limit),
        "production": row.production,
        "gates": safe(gates, limit),
        "speed_up": row.speed_up if row.speed_up and row.speed_up > 0 else None,
        "interval": speed_up_bounds(row.gates),
        "margin_pct": next((gate.margin_pct for gate in row.gates if gate.gate == "not_slower_than_fixed"), None),
        "timed_at": visible(row.timed_at, limit),
        "passed": row.passed,
    }

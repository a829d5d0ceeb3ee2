"""The JSON document of a run: built from records, encoded, written and read."""

import json
import os
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import structs

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.files import atomic, strict_json
from pytest_kernelqual.files.atomic import PathText, write
from pytest_kernelqual.judge.verdict import compared
from pytest_kernelqual.model.outcome import EVIDENCE, OUTCOMES
from pytest_kernelqual.model.record import (
    DOCUMENT_SCHEMA,
    CandidateRecord,
    CaseRecord,
    Controls,
    Document,
    Environment,
    KernelRecord,
)
from pytest_kernelqual.report.plan import Plan
from pytest_kernelqual.report.target_needs import target_needs

__all__ = ["build", "check_writable", "encode", "failing", "read", "write", "write_other"]

_LONGEST_SHOWN = 80
_FAMILY = (DOCUMENT_SCHEMA.rpartition("/")[0] + "/").encode()  # in a report of any version, damaged or not


def build(
    kernels: Sequence[KernelRecord],
    environment: Environment | None,
    nodeids: Iterable[str],
    incomplete_because: Sequence[str] = (),
    plan: Plan | None = None,
    session_problems: Sequence[str] = (),
) -> Document:
    """Return the document of `kernels`, which stay in the order given.

    `nodeids` are those of the whole run; a reason in `incomplete_because`, or what failed the session, makes the
    document incomplete. With the plan of the run, the document can be merged with those of other shards.
    """
    reasons = list(dict.fromkeys([*incomplete_because, *session_problems]))
    return Document(
        digest=_digest(kernels),
        complete=not reasons,
        incomplete_because=reasons,
        session_problems=list(session_problems),
        universe=_universe(nodeids),
        environment=environment,
        controls=_controls(kernels),
        kernels=[structs.replace(kernel, targets=target_needs(kernel)) for kernel in kernels],
        items=plan.items if plan is not None else [],
        narrowed=plan.narrowed if plan is not None else {},
    )


def failing(document: Document) -> bool:
    """Tell whether anything in the document failed, the session as a whole among it.

    A document without any case or row proves nothing and fails.
    """
    cases = [case for kernel in document.kernels for case in kernel.cases]
    rows = [row for kernel in document.kernels for row in kernel.committed]
    return (
        not (cases or rows)
        or bool(document.session_problems)
        or any(kernel.problem for kernel in document.kernels)
        or not all(case.passed for case in cases)
        or not all(row.passed for row in rows)
    )


def check_writable(path: PathText) -> None:
    """Make sure, before a long run, that a report can be written to `path` at its end; never touches the file itself.

    Raises:
        DocumentError: The folder is missing or not writable, or the file there is not empty and no report.
    """
    atomic.check_writable(path)
    there = Path(path)
    if there.exists() and there.stat().st_size and _FAMILY not in there.read_bytes():
        raise DocumentError(
            f"cannot write {str(path)!r}: the file there is no report, and would be lost; "
            "give another path, or remove it"
        )


def write_other(path: PathText, data: bytes) -> None:
    """Replace the file at `path` by what is no report.

    Raises:
        DocumentError: It could not be written, or the file there is a report.
    """
    atomic.check_writable(path)
    there = Path(path).read_bytes() if Path(path).exists() else b""
    if there.startswith(b"{") and _FAMILY in there:
        raise DocumentError(f"cannot write {path!r}: the file there is a report, and would be lost; give another path")
    write(path, data)


def encode(document: Document) -> bytes:
    """Return the document as canonical JSON: ASCII, indented by 2, dict keys sorted, final newline.

    Raises:
        DocumentError: A value has no JSON form.
    """
    return strict_json.dump(document, indent=True)


def read(path: PathText) -> Document:
    """Return the document of a file.

    Raises:
        DocumentError: It cannot be read, is no JSON, has another schema, holds a value of a wrong type, or its
            digest is not that of its records.
    """
    source = ascii(os.fspath(path))[1:-1]
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise DocumentError(
            f"cannot read '{source}': {why}; give the path of a qualified-configurations.json"
        ) from error
    if data.startswith(BOM_UTF8):
        raise DocumentError(f"{source}: begins with a byte order mark, which no report has; save it without")
    if not data.strip():
        raise DocumentError(f"{source}: is empty; give a qualified-configurations.json, or run again")
    if data.lstrip().startswith(b"{") and not data.rstrip().endswith(b"}"):
        raise DocumentError(f"{source}: is cut off after {len(data)} bytes; copy it again, or run again")
    plain = strict_json.parse(data, source)
    if not isinstance(plain, dict):
        raise DocumentError(f"{source}: holds a {type(plain).__name__}, not the object of a report")
    if plain.get("schema") != DOCUMENT_SCHEMA:
        raise DocumentError(f"{source}: {_other_schema(plain.get('schema'))}")
    document: Document = strict_json.convert(plain, Document, source)
    found = _digest(document.kernels)
    if found != document.digest:
        raise DocumentError(
            f"{source}: digest is {document.digest!r}, its records give {found!r}: edited or damaged; run again"
        )
    if document.items and document.universe != _universe(item.nodeid for item in document.items):
        raise DocumentError(f"{source}: universe is not that of its items: edited or damaged; run again")
    return document


def _other_schema(seen: object) -> str:
    """Say what is read instead of a schema, and what to do."""
    family, _, number = DOCUMENT_SCHEMA.rpartition("/")
    text = ascii(seen)
    told = f"schema is {text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + '...'}; "
    told += f"this version reads {DOCUMENT_SCHEMA!r}: "
    version = seen.removeprefix(f"{family}/") if isinstance(seen, str) and seen.startswith(f"{family}/") else ""
    if not (version.isascii() and version.isdecimal()):
        return told + "give a qualified-configurations.json of `pytest --kernelqual`"
    newer = len(version) > len(number) or int(version) > int(number)
    return told + ("update pytest-kernelqual" if newer else "run again with this version")


def _universe(nodeids: Iterable[str]) -> str:
    return _sha256(json.dumps(sorted(set(nodeids))))


def _digest(kernels: Iterable[KernelRecord]) -> str:
    """Hash the decisions alone, as a set: in which order they were declared or taken decides nothing."""
    return _sha256(json.dumps(_ordered([_kernel_decisions(kernel) for kernel in kernels]), sort_keys=True))


def _kernel_decisions(kernel: KernelRecord) -> list[Any]:
    told = [kernel.kernel, bool(kernel.problem), _ordered([_case_decisions(case) for case in kernel.cases])]
    rows = [[row.device, row.key, row.config, row.verdict] for row in kernel.committed]
    return [*told, _ordered(rows)] if rows else told


def _case_decisions(case: CaseRecord) -> list[Any]:
    candidates = sorted([record.id, record.outcome, record.evidence or ""] for record in case.candidates)
    told = [case.id, case.key, case.fixed.outcome, candidates]
    targets = [[one.target, sorted([launch.id, launch.outcome] for launch in one.launches)] for one in case.targets]
    return [*told, _ordered(targets)] if targets else told


def _ordered(decisions: list[list[Any]]) -> list[list[Any]]:
    return sorted(decisions, key=lambda decision: json.dumps(decision, sort_keys=True))


def _sha256(text: str) -> str:
    return "sha256:" + sha256(text.encode("ascii")).hexdigest()


def _controls(kernels: Iterable[KernelRecord]) -> Controls:
    outcomes: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    evidence: Counter[str] = Counter()
    for kernel in kernels:
        for case in kernel.cases:
            outcomes.update(record.outcome for record in case.candidates)
            pairs.update((kernel.kernel, record.id) for record in case.candidates if _was_compared(record))
            evidence.update(
                record.evidence for record in case.candidates if record.evidence and not record.same_as_fixed
            )
    return Controls(
        compared=pairs.total(),
        pairs=len(pairs),
        outcomes={outcome: outcomes[outcome] for outcome in OUTCOMES if outcomes[outcome]},
        evidence={grade: evidence[grade] for grade in reversed(EVIDENCE) if evidence[grade]},
    )


def _was_compared(record: CandidateRecord) -> bool:
    # A candidate for which another's run stands was not compared itself.
    return record.same_program_as is None and compared(record)

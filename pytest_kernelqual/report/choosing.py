"""One candidate of a report, named as a person names it."""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.model.profiles import FIRST, InputSet
from pytest_kernelqual.model.record import CandidateRecord, CaseRecord, Document, KernelRecord
from pytest_kernelqual.report.phrases import and_more, clean, counted

_NEAR = 5
_LONGEST = 200


class Chosen(NamedTuple):
    """A candidate, and where it stands."""

    kernel: KernelRecord
    case: CaseRecord
    candidate: CandidateRecord


def choose(document: Document, candidate: str, kernel: str | None = None, case: str | None = None) -> Chosen:
    """Return the one candidate that is meant.

    Args:
        document: The report.
        candidate: Its id.
        kernel: Name or node id of its kernel, where more than one has such a candidate.
        case: Id or node id of its case, where more than one has.

    Raises:
        DocumentError: There is none, or more than one; the message lists what there is.
    """
    kernels = [one for one in document.kernels if kernel in (None, one.kernel, one.nodeid)]
    if not kernels:
        raise _unknown("kernel", kernel, [one.kernel for one in document.kernels])
    cases = [(one, own) for one in kernels for own in one.cases if case in (None, own.id, own.nodeid)]
    if not cases:
        raise _unknown("case", case, [own.id for one in kernels for own in one.cases])
    everything = [Chosen(one, own, record) for one, own in cases for record in own.candidates]
    found = [one for one in everything if one.candidate.id == candidate]
    if not found:
        raise _unknown("candidate", candidate, [one.candidate.id for one in everything])
    if len(found) > 1:
        places = [f"{_shown(one.kernel.kernel)}[{_shown(one.case.id)}]" for one in found]
        raise DocumentError(
            f"candidate {candidate!a} is in {len(found)} cases: {and_more(list(dict.fromkeys(places)), _NEAR)}; "
            "name one by --kernel and --case"
        )
    return found[0]


class Declared(NamedTuple):
    """Where the spec of a kernel is declared."""

    path: Path
    spec: str
    input_set: InputSet
    """On which the candidate showed what it did, else the first."""


def declared(chosen: Chosen, root: Path) -> Declared:
    """Return where the spec of a candidate's kernel is: the report names its file relative to the root folder.

    Raises:
        DocumentError: There is no such file below the folder, and no other is ever imported.
    """
    name, _, spec = chosen.kernel.nodeid.partition("::")
    try:
        path = (root / name).resolve()
        found = path.is_relative_to(root.resolve()) and path.is_file()
    except (OSError, ValueError):  # ValueError: a NUL, or half of a surrogate pair
        found = False
    if not spec or not found:
        raise DocumentError(
            f"{chosen.kernel.nodeid!a} is no spec of a file below {str(root)!a}; "
            "name the root folder of the run by --root"
        )
    profile, _, seed = str(chosen.candidate.detail.get("input_set", "")).partition("/")
    named = InputSet(profile, int(seed)) if seed.isdecimal() else FIRST
    made = [InputSet(one.profile, one.seed) for one in chosen.case.input_sets]
    return Declared(path, spec, named if named in made else FIRST)


def candidate_ids(document: Document, kernel: str | None = None, case: str | None = None) -> list[str]:
    """Return the ids of all candidates, those that did not qualify first."""
    records = [
        record
        for one in document.kernels
        if kernel in (None, one.kernel, one.nodeid)
        for own in one.cases
        if case in (None, own.id, own.nodeid)
        for record in own.candidates
    ]
    records.sort(key=lambda record: record.outcome == "qualified")
    return list(dict.fromkeys(record.id for record in records))


def elsewhere(document: Document, chosen: Chosen) -> Iterator[tuple[CaseRecord, CandidateRecord]]:
    """Yield the same candidate in the other cases of its kernel."""
    for kernel in document.kernels:
        if kernel.nodeid == chosen.kernel.nodeid:
            for case in kernel.cases:
                yield from (
                    (case, record)
                    for record in case.candidates
                    if record.id == chosen.candidate.id and record is not chosen.candidate
                )


def _unknown(what: str, given: str | None, known: list[str]) -> DocumentError:
    """Say that there is no such thing, and name near ones, else the first."""
    if given is None or not known:
        return DocumentError(f"the report has no {what} at all")
    known = list(dict.fromkeys(known))
    near = get_close_matches(given, known, _NEAR, 0.5)
    # Options may be named in another order than they were declared in.
    parts = sorted(given.split(","))
    near = [one for one in known if sorted(one.split(",")) == parts] or near
    if near:
        told = f"near ones: {' '.join(_shown(one) for one in near)}"
    else:
        told = f"there are {counted(len(known), what)}: {and_more([_shown(one) for one in known], _NEAR)}"
    return DocumentError(f"the report has no {what} {given!a}; {told}")


def _shown(text: str) -> str:
    return clean(text, _LONGEST)

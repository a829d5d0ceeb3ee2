"""A comparison of two reports as plain ASCII text."""

from collections.abc import Callable, Iterable, Iterator

from pytest_kernelqual.model.config import Config
from pytest_kernelqual.report.drift import CaseChange, Comparison
from pytest_kernelqual.report.pairing import Changes, Pair
from pytest_kernelqual.report.phrases import and_more, clean

_LINES_OF_A_SECTION = 40
_LONGEST = 300
_DIGEST_SHOWN = 15
_NOTHING = "nothing changed"
_Wanted = Callable[[Changes], Changes]
"""Returns those of the changes of a launch that a section is about."""


def comparison_text(comparison: Comparison) -> str:
    """Return what changed: the toolchain, counts, then one section for each kind of change, bytes first."""
    counts = comparison.fixed_bytes
    bytes_told = ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in sorted(counts))
    toolchain = clean(told(comparison.environment), _LONGEST)
    sections = [
        f"toolchain: {toolchain or 'the same'}\nbytes of fixed launches: {bytes_told or 'none'}",
        _section("other bytes of the fixed launch", _fixed(comparison.cases, "changed")),
        _section("bytes that cannot be compared", _fixed(comparison.cases, "not_comparable")),
        _section("other fixed launch", _of_fixed(comparison.cases, _not_of_resources)),
        _section("kernels that could not be run", _problems(comparison.problems)),
        _section("candidates with another outcome", _of_candidates(comparison.cases, _of_outcome)),
        _section("candidates: evidence or order", _of_candidates(comparison.cases, _of_evidence)),
        _section("fixed launches: resources", _of_fixed(comparison.cases, _of_resources)),
        _section("candidates: resources", _of_candidates(comparison.cases, _of_resources)),
        _section("compile targets: another outcome", _of_targets(comparison.cases, _of_outcome)),
        _section("compile targets: evidence", _of_targets(comparison.cases, _of_evidence)),
        _section("compile targets: resources", _of_targets(comparison.cases, _of_resources)),
        _section("only in the first report", comparison.only_in_a),
        _section("only in the second report", comparison.only_in_b),
    ]
    changed = [section for section in sections[1:] if section]
    return "\n\n".join([sections[0], *(changed or [_NOTHING])])


def _fixed(cases: Iterable[CaseChange], wanted: str) -> Iterator[str]:
    return (f"{_name(case)}{f': {case.why}' if case.why else ''}" for case in cases if case.fixed_bytes == wanted)


def _of_fixed(cases: Iterable[CaseChange], wanted: _Wanted) -> Iterator[str]:
    return (f"{_name(case)}: {words}" for case in cases if (words := told(wanted(case.fixed))))


def _problems(problems: dict[str, Pair]) -> Iterator[str]:
    for nodeid, pair in problems.items():
        first, second = ((text.splitlines() or ["none"])[0] for text in pair)
        yield f"{nodeid}: {first} -> {second}"


def _of_candidates(cases: Iterable[CaseChange], wanted: _Wanted) -> Iterator[str]:
    return _grouped(((case, "", case.candidates) for case in cases), wanted)


def _of_targets(cases: Iterable[CaseChange], wanted: _Wanted) -> Iterator[str]:
    return _grouped(
        ((case, f" on {target}", found) for case in cases for target, found in case.targets.items()), wanted
    )


def _grouped(launches: Iterable[tuple[CaseChange, str, dict[str, Changes]]], wanted: _Wanted) -> Iterator[str]:
    """Yield a line for each set of equal changes of a kernel, so that a space of many configs stays readable."""
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for case, where, found in launches:
        for id_, changes in found.items():
            words = told(wanted(changes))
            if words:
                name = "fixed launch" if where and id_ == "fixed" else id_
                groups.setdefault((_kernel(case), where, words), []).append((case.case, name))
    for (kernel, where, words), pairs in groups.items():
        in_cases, ids = ([*dict.fromkeys(names)] for names in zip(*pairs, strict=True))
        yield f"{kernel}[{and_more(in_cases)}] {and_more(ids)}{where}: {words}"


def _of_outcome(changes: Changes) -> Changes:
    return changes if "outcome" in changes else {}


def _of_evidence(changes: Changes) -> Changes:
    return {} if "outcome" in changes else _not_of_resources(changes)


def _not_of_resources(changes: Changes) -> Changes:
    return {name: pair for name, pair in changes.items() if not _is_number(pair)}


def _of_resources(changes: Changes) -> Changes:
    return {} if "outcome" in changes else {name: pair for name, pair in changes.items() if _is_number(pair)}


def _is_number(pair: Pair) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in pair)


def told(changes: Changes) -> str:
    """Return values of both reports, by name."""
    return ", ".join(f"{name} {_value(pair[0])} -> {_value(pair[1])}" for name, pair in changes.items())


def _value(value: object) -> str:
    if isinstance(value, dict):
        return Config(value).id
    text = "none" if value in (None, "") else str(value)
    return f"{text[:_DIGEST_SHOWN]}..." if text.startswith("sha256:") else text


def _name(case: CaseChange) -> str:
    return f"{_kernel(case)}[{case.case}]"


def _kernel(case: CaseChange) -> str:
    return case.nodeid.rpartition("::")[2]


def _section(title: str, lines: Iterable[str]) -> str:
    found = [f"  {clean(line, _LONGEST)}" for line in lines]
    if not found:
        return ""
    hidden = len(found) - _LINES_OF_A_SECTION
    more = [f"  and {hidden} more; --format json lists them all"] if hidden > 0 else []
    return "\n".join([f"{title} ({len(found)})", *found[:_LINES_OF_A_SECTION], *more])

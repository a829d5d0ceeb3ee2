"""Properties for pytest's own `--junitxml`, as pairs of name and value."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.record import CandidateRecord, CaseRecord, CommittedRecord, Document

Properties = list[tuple[str, str]]

_CANDIDATE, _FIXED = "kernelqual.candidate ", "kernelqual.fixed "
PER_CASE = (_CANDIDATE, _FIXED)
"""How the names of properties begin that stand at their test case where the family of the file allows it."""

# Everything that XML 1.0 forbids, and the controls that it allows but that would break a name or value in two.
_FORBIDDEN = re.compile("[^\x20-\x7e\x80-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def suite_properties(document: Document) -> Properties:
    """Return what a test suite tells: environment, digest and one property per candidate and case."""
    told: Properties = [
        ("kernelqual.digest", document.digest),
        ("kernelqual.universe", document.universe),
        ("kernelqual.complete", "true" if document.complete else "false"),
        ("kernelqual.compared", str(document.controls.compared)),
        ("kernelqual.pairs", str(document.controls.pairs)),
    ]
    environment = document.environment
    if environment is None:
        told.append(("kernelqual.device", "none"))
    else:
        device = environment.device
        told += [
            ("kernelqual.device", f"{device.kind};{device.name};{device.architecture}"),
            ("kernelqual.driver", environment.driver),
            ("kernelqual.runtime", environment.runtime),
            ("kernelqual.torch", environment.torch),
            ("kernelqual.triton", environment.triton),
            ("kernelqual.python", environment.python),
            ("kernelqual.version", environment.kernelqual),
            ("kernelqual.seed", str(environment.seed)),
        ]
    told += [(f"kernelqual.problem {kernel.nodeid}", kernel.problem) for kernel in document.kernels if kernel.problem]
    rows = [row for kernel in document.kernels for row in kernel.committed]
    told += [(f"kernelqual.committed {name}", _row(row)) for name, row in zip(_row_names(rows), rows, strict=True)]
    cases = [case for kernel in document.kernels for case in kernel.cases]
    return _cleaned(told) + [pair for case in cases for pair in case_properties(case)]


def case_properties(case: CaseRecord) -> Properties:
    """Return what one test case tells; named as in the suite, so that both families of JUnit read alike."""
    told: Properties = [(f"{_FIXED}{case.nodeid}", case.fixed.outcome)]
    told += [(f"{_CANDIDATE}{case.nodeid} {record.id}", _verdict(record)) for record in case.candidates]
    return _cleaned(told)


def _row_names(rows: Sequence[CommittedRecord]) -> Iterator[str]:
    """Yield node ids; where one item tells of several rows, as that of a file does, with the number among them."""
    totals, so_far = Counter(row.nodeid for row in rows), Counter[str]()
    for row in rows:
        so_far[row.nodeid] += 1
        yield row.nodeid if totals[row.nodeid] == 1 else f"{row.nodeid} {so_far[row.nodeid]}"


def _row(row: CommittedRecord) -> str:
    """Return `verdict;config;ratio;evidence`, the ratio of committed to fixed time."""
    config = Config(row.config).id if row.config is not None else "fixed"
    ratio = f"{1 / row.speed_up:.4f}" if row.speed_up else ""
    return f"{row.verdict};{config};{ratio};{row.evidence or ''}"


def _verdict(record: CandidateRecord) -> str:
    """Return `outcome;evidence;ratio`; nothing is timed, so that the ratio is empty."""
    return f"{record.outcome};{record.evidence or ''};"


def _cleaned(properties: Properties) -> Properties:
    return [(_clean(name), _clean(value)) for name, value in properties]


def _clean(text: str) -> str:
    """Write a forbidden character as pytest does in values: `#x1B`."""
    return _FORBIDDEN.sub(lambda found: f"#x{ord(found.group()):02X}", text)

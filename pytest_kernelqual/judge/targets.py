"""What launches on compile targets mean for their case."""

from collections.abc import Iterable

from pytest_kernelqual.model.outcome import TargetOutcome
from pytest_kernelqual.model.record import TargetRecord

FIXED = "fixed"
_FAILING: frozenset[TargetOutcome] = frozenset({"out_of_resources", "compile_error", "timeout"})


def target_failures(records: Iterable[TargetRecord]) -> list[str]:
    """Return why a case fails: production's own launch could not be made there. Candidates are only recorded."""
    return [
        f"fixed launch on {record.target}: {launch.outcome}: {launch.reason}"
        for record in records
        for launch in record.launches
        if launch.id == FIXED and launch.outcome in _FAILING
    ]

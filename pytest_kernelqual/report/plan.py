"""What a run sets out to do, as data."""

from typing import Any, Literal

from msgspec import Struct, field

from pytest_kernelqual.model.config import Scalar
from pytest_kernelqual.model.record import DeclaredItem, Environment

PLAN_SCHEMA = "kernelqual/plan/1"
NOTHING_SELECTED = "no qualification item was selected"
"""Why a run without kernels is incomplete."""


class PlannedCase(Struct, frozen=True, kw_only=True):
    """A case that is to be run, with its candidates in declared order."""

    id: str
    case: dict[str, Any]
    key: dict[str, Any]
    ran_as: dict[str, Any] | None = None
    nodeid: str
    candidates: list[tuple[str, dict[str, Scalar]]] = field(default_factory=list)
    """Id and config of each."""


class PlannedRow(Struct, frozen=True, kw_only=True):
    """A committed row that is to be checked."""

    nodeid: str
    device: str
    key: dict[str, Any]


class PlannedKernel(Struct, frozen=True, kw_only=True):
    """A spec that is to be run; with `problem` set nothing of it can run."""

    kernel: str
    nodeid: str
    line: int = 0
    screen: str | None = None
    notes: list[str] = field(default_factory=list)
    problem: str = ""
    cases: list[PlannedCase] = field(default_factory=list)
    rows: list[PlannedRow] = field(default_factory=list)


class Plan(Struct, frozen=True, kw_only=True):
    """What a run sets out to do, in declared order."""

    schema: Literal["kernelqual/plan/1"] = PLAN_SCHEMA  # type: ignore[assignment]
    kernels: list[PlannedKernel]
    nodeids: list[str]
    """Every item of the run."""
    incomplete_because: list[str] = field(default_factory=list)
    """What narrowed the run from its start, for example `-k`."""
    items: list[DeclaredItem] = field(default_factory=list)
    """Those of `nodeids`, in declared order."""
    narrowed: dict[str, str] = field(default_factory=dict)
    """What made the run a part of a whole."""
    environment: Environment | None = None

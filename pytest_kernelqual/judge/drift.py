"""Whether production's own bytes are those of the day on which a config was committed."""

from pytest_kernelqual.committed.schema import Row, Toolchain
from pytest_kernelqual.model.record import FixedRecord, ProductionBytes

# What is most likely to change bytes comes first.
_PARTS = ("triton", "torch", "runtime", "driver", "python")


def judge_production(row: Row, then: Toolchain, fixed: FixedRecord, now: Toolchain) -> tuple[ProductionBytes, str]:
    """Compare the fixed launch's output with the one stored in a row, and say what changed.

    Args:
        row: As committed.
        then: What the row was measured with.
        fixed: The fixed launch of this run, on the case that the row was measured on.
        now: What this run uses.
    """
    if row.fixed_output is None or fixed.output is None:
        return "unknown", ""
    if row.fixed_output == fixed.output:
        return "same", ""
    if row.fixed_inputs is None or fixed.inputs is None:
        return "unknown", ""
    if row.fixed_inputs != fixed.inputs:
        return "not_comparable", (
            "whether production's bytes changed cannot be told: "
            "the inputs are others than when the row was committed (another seed, or another torch?)"
        )
    return "changed", f"production's bytes changed {_since(then, now)}"


def _since(then: Toolchain, now: Toolchain) -> str:
    changed = [name for name in _PARTS if getattr(then, name) != getattr(now, name)]
    if not changed:
        return "and the toolchain did not: what does the fixed launch read besides its inputs?"
    told = ", ".join(f"{name} {_version(then, name)} -> {_version(now, name)}" for name in changed)
    return f"since {changed[0]} {_version(then, changed[0])} ({told})"


def _version(toolchain: Toolchain, name: str) -> str:
    return getattr(toolchain, name) or "none"

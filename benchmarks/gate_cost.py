"""Print how much device time gates took in a run on a GPU: `python gate_cost.py qualified-configurations.json`.

The time of a gate is the sum of its samples; what is between them (caches emptied, inputs restored) is not in it, nor
are shorter samples that a control was not content with, nor the search for the best rival.
Samples that two gates judge count once in their row.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from pytest_kernelqual.errors import DocumentError
from pytest_kernelqual.model.record import GateRecord
from pytest_kernelqual.report.document import read

_DECISIONS = ("not_slower_than_fixed", "near_best")


def main() -> int:
    """Print medians and maxima in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    try:
        document = read(parser.parse_args().report)
    except DocumentError as error:
        print(error, file=sys.stderr)
        return 2
    rows = [row.gates for kernel in document.kernels for row in kernel.committed]
    decisions = [[gate] for gates in rows for gate in gates if gate.gate in _DECISIONS]
    for name, timed in (("a row, its control included", rows), ("a decision without its control", decisions)):
        taken = [ms for gates in timed if (ms := _ms(gates))]
        told = f"median {median(taken):.1f} ms, longest {max(taken):.1f} ms of device time" if taken else "not timed"
        print(f"{name}: {len(taken)}, {told}")
    return 0


def _ms(gates: Sequence[GateRecord]) -> float:
    """Return the sum of the samples of gates, those of fresh processes included."""
    taken: list[tuple[int, list[list[float]]]] = []
    for gate in gates:
        found = [(gate.launches, rounds) for rounds in (gate.rounds, *gate.confirmations)]
        taken += [one for one in found if one not in taken]
    return sum(launches * sample for launches, rounds in taken for abba in rounds for sample in abba) / 1e3


if __name__ == "__main__":
    sys.exit(main())

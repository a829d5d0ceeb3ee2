"""Print how much device time gates took in a run on a GPU: `python gate_cost.py qualified-configurations.json`.

The time of a gate is the sum of its samples; what is between them (caches emptied, inputs restored) is not in it, nor
are shorter samples that a control was not content with, nor the search for the best rival.
"""

import argparse
from pathlib import Path
from statistics import median

from pytest_kernelqual.model.record import GateRecord
from pytest_kernelqual.report.document import read

_DECISIONS = ("not_slower_than_fixed", "near_best")


def main() -> None:
    """Print medians and maxima in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    document = read(parser.parse_args().report)
    timed = [row.gates for kernel in document.kernels for row in kernel.committed if any(map(_ms, row.gates))]
    decisions = [_ms(gate) for gates in timed for gate in gates if gate.gate in _DECISIONS and gate.rounds]
    for name, taken in (
        ("a row, its control included", [sum(_ms(gate) for gate in gates if gate.gate != "decay") for gates in timed]),
        ("a decision without its control", decisions),
    ):
        print(f"{name}: {len(taken)}, median {median(taken):.1f} ms, longest {max(taken):.1f} ms of device time")


def _ms(gate: GateRecord) -> float:
    """Return the sum of a gate's samples, those of fresh processes included."""
    samples = (sample for rounds in (gate.rounds, *gate.confirmations) for abba in rounds for sample in abba)
    return sum(samples) * gate.launches / 1e3


if __name__ == "__main__":
    main()

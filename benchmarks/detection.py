"""Plant slow-downs of known size and count how often the gate finds them.

    python benchmarks/detection.py [--processes 5] [--margin 0.02]

Needs a GPU.
The true size of each slow-down is measured first, by 64 rounds of 1 ms a sample.
"""

import argparse
import contextlib
import math
import statistics
import sys
from collections import Counter, defaultdict
from pathlib import Path

from pytest_kernelqual.gating.arms import LONGEST_SAMPLE_US, Arms, Place
from pytest_kernelqual.gating.gates import control, gate
from pytest_kernelqual.judge.statistics import log_ratio_of_round
from pytest_kernelqual.model.config import Config
from pytest_kernelqual.model.settings import Settings
from pytest_kernelqual.processes.device import Limits
from pytest_kernelqual.processes.device_process import DeviceProcess

LIMITS = Limits(300, 300, 300)
PLANTED = Path(__file__).parent / "planted" / "qual_slow_down.py"
CASES = ("n262144", "n1048576", "n2097152")
SLOWER = {0: 2000, 0.5: 2010, 3: 2060, 5: 2100, 10: 2200}
TRUTH_ROUNDS = 64


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--margin", type=float, default=0.02)
    options = parser.parse_args()
    settings = Settings(root_dir=str(PLANTED.parent), device="cuda")
    confirming = [DeviceProcess(settings), DeviceProcess(settings)]
    verdicts: dict[tuple[str, float], Counter[str]] = defaultdict(Counter)
    truths: dict[tuple[str, float], list[float]] = defaultdict(list)
    times: dict[str, float] = {}
    configs = [None, None, *(Config(WORK=iterations) for iterations in SLOWER.values())]
    for number in range(options.processes):
        device = DeviceProcess(settings)
        for case in CASES:
            place = Place(str(PLANTED), "slow_down", case, LIMITS)
            arms = Arms(device, place, configs, exclusive=contextlib.nullcontext)
            arms.open(LONGEST_SAMPLE_US, qualify=True)
            for arm, percent in enumerate(SLOWER, 2):
                rounds = arms.sample(0, arm, TRUTH_ROUNDS)
                truth = statistics.median(log_ratio_of_round(abba) for abba in rounds)
                truths[case, percent].append(math.expm1(truth) * 100)
                times[case] = statistics.median(abba[0] for abba in rounds)
            armed = control(arms, margin=options.margin, qualify=False)
            for arm, percent in enumerate(SLOWER, 2):
                for _ in range(options.repeats):
                    if armed.verdict != "ok":
                        verdicts[case, percent][armed.verdict] += 1
                        continue
                    pair = [None, Config(WORK=SLOWER[percent])]
                    fresh = [Arms(other, place, pair, exclusive=contextlib.nullcontext) for other in confirming]
                    record = gate(
                        "not_slower_than_fixed", arms, (0, arm), margin=options.margin, fresh=lambda fresh=fresh: fresh
                    )
                    verdicts[case, percent][record.verdict] += 1
                    if record.verdict not in ("ok", "slow"):
                        print(case, percent, record.ratio, record.processes, record.reason, file=sys.stderr)
        device.close()
        print(f"process {number + 1} of {options.processes}", file=sys.stderr, flush=True)
    for other in confirming:
        other.close()
    print(f"margin {options.margin * 100:g} %, {options.processes} processes")
    for (case, percent), counted in verdicts.items():
        truth = truths[case, percent]
        total = sum(counted.values())
        print(
            f"{case:10s} {times[case]:8.2f} us  planted {percent:4g} %  true {statistics.median(truth):6.2f} % "
            f"[{min(truth):6.2f} {max(truth):6.2f}]  found {counted['slow']:3d} of {total:3d}  {dict(counted)}"
        )


if __name__ == "__main__":
    main()

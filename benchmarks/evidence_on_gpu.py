"""Print what is known of candidates by their programs on this GPU, and check that it is true.

    python benchmarks/evidence_on_gpu.py [--check] [--traps] [--only NAME ...] [--cases N] [--farm] [FILE ...]

For each spec of the files (default: `kernels/qual_*.py`), over its cases and the first input set: how many candidates
launch the fixed launch's program or an earlier candidate's and so are not run, why the others are, and dead axes.

`--check` runs every candidate all the same, before it is looked at, and counts those called `identical_binary` that did
not qualify, and those of which another's run gave another outcome: both must be 0.
It also tells how long all candidates took with and without looks; what was compiled before both.
`--traps` runs `tests/suites/evidence` in place of the kernels and holds it against what it expects.
The exit status is 1 where anything is not as it must be.
"""

import argparse
import importlib.util
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec import Struct, structs
from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
TRAPS = ROOT / "tests/suites/evidence"
sys.path[:0] = [str(ROOT), str(TRAPS)]

from pytest_kernelqual.errors import KernelqualError  # noqa: E402 - from this working tree
from pytest_kernelqual.judge.dead_axes import Launched, dead_axes  # noqa: E402
from pytest_kernelqual.model.messages import (  # noqa: E402
    Describe,
    Described,
    EnvironmentRead,
    Open,
    Opened,
    ReadEnvironment,
    SpecInfo,
    Survey,
    Tried,
    Try,
)
from pytest_kernelqual.model.settings import Settings  # noqa: E402
from pytest_kernelqual.processes.device import Limits  # noqa: E402
from pytest_kernelqual.processes.device_process import DeviceProcess  # noqa: E402

LIMITS = Limits(300, 300, 120)


class Seen(Struct):
    """What was seen of one spec, over its cases."""

    counts: Counter[str]
    dead: Counter[str]
    wrong: list[str]
    looked_s: float = 0.0
    ran_s: float = 0.0


class Bench:
    """A device process that is started again when it dies."""

    def __init__(self, root: Path) -> None:
        """Start it when it is asked."""
        self._settings = Settings(root_dir=str(root), compile_workers=len(os.sched_getaffinity(0)))
        self._device: DeviceProcess | None = None

    def ask(self, request: Any) -> Any:
        """Return the reply, or the error's text."""
        if self._device is None:
            self._device = DeviceProcess(self._settings)
        try:
            reply = self._device.ask(request, LIMITS)
        except KernelqualError as error:
            self.close()
            return str(error)
        if isinstance(reply, Opened | Tried) and reply.fatal:
            self.close()
        return reply

    def close(self) -> None:
        """End the process."""
        if self._device is not None:
            self._device.close()
            self._device = None


def main() -> int:
    """Look at every spec, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true", help="run what is called identical all the same")
    parser.add_argument("--traps", action="store_true", help="the suite of traps, held against what it expects")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="specs of these names alone")
    parser.add_argument("--cases", type=int, metavar="N", help="the first N cases of each spec")
    parser.add_argument("--minutes", type=float, default=9.0, help="no spec is begun later (default: 9)")
    parser.add_argument("--farm", action="store_true", help="compile in parallel before anything is looked at")
    options = parser.parse_args()
    files = sorted(TRAPS.glob("qual_*.py")) if options.traps else options.files
    files = files or sorted((ROOT / "kernels").glob("qual_*.py"))
    bench = Bench(files[0].resolve().parent)
    if importlib.util.find_spec("elftools") is None:
        print("pyelftools is not installed (extra `triton`), so that no code is known to be equal")
        return 1
    read = bench.ask(ReadEnvironment())
    if not isinstance(read, EnvironmentRead):
        print(read)
        return 1
    here = read.environment
    print(f"{here.device.name}, torch {here.torch}, triton {here.triton}, python {here.python}\n")
    until = time.monotonic() + 60 * options.minutes
    not_begun: list[str] = []
    rows: list[list[Any]] = []
    wrong: list[str] = []
    for path in files:
        told = bench.ask(Describe(path=str(path.resolve())))
        if not isinstance(told, Described) or told.problem:
            wrong.append(f"{path}: {told.problem if isinstance(told, Described) else told}")
            continue
        suite = importlib.import_module(path.stem) if options.traps else None
        for declared in told.specs:
            spec = structs.replace(declared, cases=declared.cases[: options.cases])
            if time.monotonic() > until:
                not_begun.append(spec.name)
            elif not options.only or spec.name in options.only:
                if options.farm:
                    bench.ask(Survey(path=str(path.resolve()), cases=[(spec.name, case.id) for case in spec.cases]))
                foreseen = suite is not None and spec.name not in getattr(suite, "UNFORESEEN", ())
                expected = suite.EXPECTED[spec.name] if foreseen else None
                seen = _seen(bench, str(path.resolve()), spec, expected, check=options.check)
                wrong += seen.wrong
                rows.append(_row(spec, seen, check=options.check))
                print(*rows[-1], flush=True)
    bench.close()
    print(f"\n{_table(rows, check=options.check)}\n")
    if not_begun:
        print(f"not begun for want of time: {', '.join(not_begun)}")
    print("\n".join([f"{len(wrong)} not as they must be", *wrong]))
    return 1 if wrong or not rows else 0


def _seen(bench: Bench, path: str, spec: SpecInfo, expected: dict[str, str] | None, *, check: bool) -> Seen:
    """Try every candidate of every case."""
    seen = Seen(Counter(), Counter(), [f"{spec.name}: {spec.problem}"] if spec.problem else [])
    for case in spec.cases:
        where = f"{spec.name}[{case.id}]"
        opening = Open(path=path, spec=spec.name, case=case.id)
        ran, looked = {}, {}
        if check:
            ran, _ = _tried(bench, opening, spec, look=False)
            # Compiled by now: this time is that of running.
            _, ran_s = _tried(bench, opening, spec, look=False)
            seen.ran_s += ran_s
        looked, looked_s = _tried(bench, opening, spec, look=True)
        seen.looked_s += looked_s
        if not looked:
            seen.counts["no baseline"] += len(spec.candidates)
            seen.wrong += [f"{where}: the fixed launch did not qualify"] if expected else []
            continue
        for info in spec.candidates:
            told, truth = looked[info.id], ran.get(info.id)
            shown = _shown(told)
            seen.counts[shown.partition(" as ")[0] if " as " not in shown else "duplicate"] += 1
            seen.counts["not known"] += not told.program and told.launches > 0
            if truth is not None and not told.launches and truth.outcome != told.outcome:
                seen.wrong.append(f"{where} {info.id}: {shown} without a run, and {truth.outcome} when it was run")
            if expected is not None and shown not in expected[info.id].split(" or "):
                seen.wrong.append(f"{where} {info.id}: {shown} and not {expected[info.id]}: {told.reason}")
        seen.dead.update(dead_axes([_launched(info.config, looked[info.id]) for info in spec.candidates]))
    return seen


def _tried(bench: Bench, opening: Open, spec: SpecInfo, *, look: bool) -> tuple[dict[str, Tried], float]:
    """Return what became of each candidate of a case, and the seconds; nothing where there is no baseline."""
    found: dict[str, Tried] = {}
    took_s = 0.0
    is_open = False
    for info in spec.candidates:
        if not is_open:
            opened = bench.ask(opening)
            if not isinstance(opened, Opened) or opened.outcome != "qualified":
                print(f"{spec.name}[{opening.case}]: {getattr(opened, 'reason', opened)}", file=sys.stderr, flush=True)
                return {}, 0.0
        began = time.monotonic()
        reply = bench.ask(Try(config=info.config, look=look))
        took_s += time.monotonic() - began
        is_open = isinstance(reply, Tried) and not reply.fatal
        found[info.id] = reply if isinstance(reply, Tried) else Tried(outcome="fault", reason=str(reply))
    return found, took_s


def _launched(config: Any, tried: Tried) -> Launched:
    programs = (tried.program,) if tried.program else ()
    return Launched(config, programs, tried.outcome not in ("unsupported", "compile_error"))


def _shown(tried: Tried) -> str:
    told = tried.evidence or tried.outcome
    if tried.same_program_as:
        return f"{told} as {tried.same_program_as}"
    return f"{told} run" if told == "identical_binary" and tried.launches else told


def _row(spec: SpecInfo, seen: Seen, *, check: bool) -> list[Any]:
    counts = dict(seen.counts)
    identical, duplicate = counts.pop("identical_binary", 0), counts.pop("duplicate", 0)
    not_known = counts.pop("not known", 0)
    others = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    dead = ", ".join(f"{name} ({count} of {len(spec.cases)})" for name, count in sorted(seen.dead.items()))
    total = len(spec.cases) * len(spec.candidates)
    row = [spec.name, len(spec.cases), total, identical, duplicate, not_known, others, dead]
    return [*row, round(seen.ran_s, 2), round(seen.looked_s, 2)] if check else row


def _table(rows: list[list[Any]], *, check: bool) -> str:
    headers = ["spec", "cases", "candidates", "identical", "duplicates", "not known", "others", "dead axes"]
    headers += ["run s", "with looks s"] if check else []
    numbers = [1, 2, 3, 4, 5, *((8, 9) if check else ())]
    total = ["all", *("" for _ in headers[1:])]
    for at in numbers:
        total[at] = round(sum(row[at] for row in rows), 2)
    return tabulate([*rows, total], headers)


if __name__ == "__main__":
    sys.exit(main())

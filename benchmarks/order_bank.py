"""Compare what fingerprints of arithmetic order say of the order bank with whether bytes really change.

    python benchmarks/order_bank.py [--only TEXT] [--target cuda:90] [--markdown FILE]

On a GPU every pair of configs runs at its small and its large shape: 1, 4 and 16 seeds of normal inputs, 64 at the
large shape.
Without one the fingerprints' verdicts alone are printed, for the target.
A pair that raises is told as such, and the others go on.
"""

import argparse
import sys
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

warnings.filterwarnings("ignore")
sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests/sensitivity/order_bank")]

import torch  # noqa: E402 - the bank lies outside the package
from pairs import CHANGING, KEEPING, UNDECIDED, Config, Pair, Shape, Tensors  # noqa: E402 - as above
from tabulate import tabulate  # noqa: E402 - as above
from triton.backends.compiler import GPUTarget  # noqa: E402 - as above
from verdicts import verdict  # noqa: E402 - as above

SEEDS = {"small": 16, "large": 64}
FEW = (1, 4, 16)
BANKS = {"changing": CHANGING, "keeping": KEEPING, "undecided": UNDECIDED}
TARGETS = {
    "cuda:80": GPUTarget("cuda", 80, 32),
    "cuda:90": GPUTarget("cuda", 90, 32),
    "cuda:100": GPUTarget("cuda", 100, 32),
    "hip:gfx942": GPUTarget("hip", "gfx942", 64),
}


class Row(NamedTuple):
    """What was found of one pair at one shape."""

    bank: str
    pair: str
    size: str
    verdict: str
    reason: str
    differing: list[int] | None
    """Seeds whose bytes differ; None where nothing ran."""
    seeds: int
    unstable: bool = False
    """A config differs from itself."""
    problem: str = ""


def main() -> None:
    """Run the bank and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="pairs whose name contains this")
    parser.add_argument("--target", default="cuda:90", choices=sorted(TARGETS), help="where there is no GPU")
    parser.add_argument("--markdown", default="", help="write the tables to this file too")
    options = parser.parse_args()
    gpu = torch.cuda.is_available()
    rows = []
    for bank, pairs in BANKS.items():
        for pair in pairs:
            if options.only not in pair.name:
                continue
            for size in SEEDS:
                rows.append(look(bank, pair, size, None if gpu else TARGETS[options.target]))
                print(line(rows[-1]), flush=True)
    text = tables(rows, ran=gpu)
    print(text)
    if options.markdown:
        Path(options.markdown).write_text(text + "\n")


def look(bank: str, pair: Pair, size: str, target: GPUTarget | None) -> Row:
    """Ask the fingerprints about a pair, and run it where there is a GPU."""
    shape: Shape = getattr(pair, size)
    said, reason, problem = "", "", ""
    try:
        order = verdict(pair, shape, target)
        said, reason = order.verdict, "; ".join(order.reasons)
    except Exception as error:  # noqa: BLE001 - one pair must not end the others
        problem = f"fingerprint: {type(error).__name__}: {error}".splitlines()[0]
        traceback.print_exc()
    if target is not None:
        return Row(bank, pair.name, size, said, reason, None, 0, problem=problem)
    try:
        differing, unstable = run(pair, shape, SEEDS[size])
    except Exception as error:  # noqa: BLE001 - as above
        traceback.print_exc()
        problem = f"{problem} run: {type(error).__name__}: {error}".splitlines()[0].strip()
        return Row(bank, pair.name, size, said, reason, None, 0, problem=problem)
    return Row(bank, pair.name, size, said, reason, differing, SEEDS[size], unstable, problem)


def run(pair: Pair, shape: Shape, seeds: int) -> tuple[list[int], bool]:
    """Return the seeds on which the two configs give other bytes, and whether one differs from itself."""
    differing, unstable = [], False
    for seed in range(seeds):
        first = launched(pair, shape, pair.a, seed)
        unstable = unstable or not same(first, launched(pair, shape, pair.a, seed))
        if not same(first, launched(pair, shape, pair.b, seed)):
            differing.append(seed)
    return differing, unstable


def launched(pair: Pair, shape: Shape, config: Config, seed: int) -> Tensors:
    """Launch one config on fresh inputs, and return every tensor but the scratch."""
    made = pair.inputs(shape)
    generator = torch.Generator("cuda").manual_seed(seed)
    tensors: Tensors = {name: draw(*wanted, generator) for name, wanted in made.drawn.items()}
    tensors |= {name: torch.zeros(size, dtype=dtype, device="cuda") for name, (size, dtype) in made.results.items()}
    pair.launch(tensors, shape, config)
    torch.cuda.synchronize()
    return {name: tensor for name, tensor in tensors.items() if name != "p"}  # partial sums of one config alone


def draw(size: Shape, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Return normal values, or integers of the whole range that sums of a case do not lose."""
    if dtype.is_floating_point:
        return torch.randn(size, generator=generator, device="cuda").to(dtype)
    most = 127 if dtype == torch.int8 else 1 << 20
    return torch.randint(-most, most, size, generator=generator, device="cuda").to(dtype)


def same(one: Tensors, other: Tensors) -> bool:
    """Compare bytes."""
    return all(torch.equal(one[name].view(torch.uint8), other[name].view(torch.uint8)) for name in one)


def line(row: Row) -> str:
    """Return a row in one line."""
    found = "not run" if row.differing is None else f"{len(row.differing)} of {row.seeds} seeds differ"
    unstable = ", differs from itself" if row.unstable else ""
    return f"{row.bank}: {row.pair} ({row.size}): {found}{unstable}; {row.verdict} {row.reason} {row.problem}".rstrip()


def tables(rows: list[Row], *, ran: bool) -> str:
    """Return the table of pairs, and what it comes to."""
    parts = [counts(rows)]
    if ran:
        parts += [truth(rows)]
    headers = ["list", "pair", "shape", "seeds that differ", "fingerprint", "why"]
    body = [
        [row.bank, row.pair, row.size, _differing(row), row.verdict or row.problem, row.reason[:120]] for row in rows
    ]
    return "\n\n".join([*parts, tabulate(body, headers, tablefmt="github", disable_numparse=True)])


def counts(rows: list[Row]) -> str:
    """Count verdicts by list and shape."""
    found = Counter((row.bank, row.size, row.verdict or "failed") for row in rows)
    body: list[list[Any]] = [
        [bank, size, *(found[bank, size, said] for said in ("equal", "differs", "unknown", "failed"))]
        for bank in BANKS
        for size in SEEDS
    ]
    return tabulate(body, ["list", "shape", "equal", "differs", "unknown", "failed"], tablefmt="github")


def truth(rows: list[Row]) -> str:
    """Tell what the bytes say, whatever list a pair is in: a pair changes when any seed at any shape differs."""
    pairs: dict[str, list[Row]] = {}
    for row in rows:
        pairs.setdefault(row.pair, []).append(row)
    ran = {name: of for name, of in pairs.items() if all(row.differing is not None for row in of)}
    changing = {name: of for name, of in ran.items() if any(row.differing for row in of)}
    keeping = {name: of for name, of in ran.items() if name not in changing}
    wrong = [name for name, of in changing.items() if any(row.verdict == "equal" for row in of)]
    equal = [name for name, of in keeping.items() if all(row.verdict == "equal" for row in of)]
    lines = [
        f"pairs that ran: {len(ran)} of {len(pairs)}; bytes change: {len(changing)}; never: {len(keeping)}",
        f"of those whose bytes change, called equal (must be none): {len(wrong)}: {', '.join(wrong) or '-'}",
        f"of those whose bytes never change, called equal: {len(equal)} of {len(keeping)}",
        f"expected to change and never did: {_names(keeping, 'changing')}",
        f"expected to keep and changed: {_names(changing, 'keeping')}",
        f"differ from themselves: {', '.join(name for name, of in ran.items() if any(r.unstable for r in of)) or '-'}",
    ]
    for few in FEW:
        for size in SEEDS:
            missed = [
                name
                for name, of in changing.items()
                if not any(seed < few for row in of if row.size == size for seed in row.differing or ())
            ]
            lines.append(f"missed by {few} seeds of normal at the {size} shape: {len(missed)} of {len(changing)}")
    return "\n".join(lines)


def _names(pairs: dict[str, list[Row]], bank: str) -> str:
    return ", ".join(name for name, of in pairs.items() if of[0].bank == bank) or "-"


def _differing(row: Row) -> str:
    return "not run" if row.differing is None else f"{len(row.differing)} of {row.seeds}"


if __name__ == "__main__":
    main()

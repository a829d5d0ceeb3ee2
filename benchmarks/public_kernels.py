"""Qualify kernels of installable Triton libraries as they are, and tell what became of each.

    python benchmarks/public_kernels.py --install FOLDER
    python benchmarks/public_kernels.py --site FOLDER [--device cuda] [--target NAMES] [--markdown] [NAME ...]

`--install` puts the libraries of the dependency group `public` into a folder, without what they require: it would
replace torch and triton. `--site` is such a folder, in front of Python's path.
Each spec file of `tests/suites/public` (or those of the libraries named, such as `liger_kernel`) is run by
`pytest --kernelqual`; the table has one line a kernel, and `--markdown` prints it as docs/public-kernels.md has it.
Without `--target`, no target is compiled for on a GPU, and cuda:90 and hip:gfx942 elsewhere. On a GPU that is itself a
target, how often what was said of it holds is told too.

The exit status is 1 where a run left no report or a library is not there, and 2 where none is; whatever a kernel does
is no failure here.
"""

import argparse
import ast
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import time
import tomllib
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT / "tests/suites/public"
_MOST_REASONS = 3
_ENDING_S = 30
# Of a launch on a device; `unsupported` is said of both.
_REFUSED = ("out_of_resources", "compile_error", "launch_error", "timeout", "unsupported")


class Row(NamedTuple):
    """A spec of a library's kernel, and its record in the report."""

    library: str
    kernel: str
    record: dict[str, Any]


def main() -> int:
    """Install, or run and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", metavar="NAME")
    parser.add_argument("--install", type=Path, metavar="FOLDER")
    parser.add_argument("--site", type=Path, metavar="FOLDER")
    parser.add_argument("--device", default="interpreter")
    parser.add_argument("--target", metavar="NAMES")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--minutes", type=float, default=60.0, help="what is not done by then is not run")
    options = parser.parse_args()
    if options.install is not None:
        return install(options.install)
    if options.target is None:
        options.target = "cuda:90,hip:gfx942" if options.device == "interpreter" else ""
    if options.site is not None:
        sys.path.insert(0, str(options.site.resolve()))
    files = [path for path in sorted(SUITE.glob("qual_*.py")) if library_of(path) in (options.libraries or LIBRARIES)]
    missing = [library_of(path) for path in files if importlib.util.find_spec(library_of(path)) is None]
    files = [path for path in files if library_of(path) not in missing]
    if missing:
        print(f"not installed: {', '.join(missing)}; see --install and --site", file=sys.stderr)
    if not files:
        print(f"nothing to do; libraries: {', '.join(sorted(LIBRARIES))}")
        return 2
    until = time.monotonic() + 60 * options.minutes
    rows: list[Row] = []
    lost: list[str] = []
    environment: dict[str, Any] = {}
    for path in files:
        began = time.monotonic()
        document = run(path, options.device, options.target, max(1.0, until - began))
        print(f"{path.stem}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        if document is None:
            lost.append(path.name)
            continue
        environment = document["environment"] or environment
        names = kernels_of(path)
        rows += [Row(library_of(path), names[kernel["kernel"]], kernel) for kernel in document["kernels"]]
    print(shown(rows, environment, markdown=options.markdown))
    print("".join(f"\nno report of {name}: its output is above" for name in lost))
    return 1 if lost or missing else 0


def install(folder: Path) -> int:
    """Install the libraries into a folder; return pip's exit status."""
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["public"]
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--upgrade"]
    return subprocess.run([*command, "--target", str(folder), *requirements], check=False).returncode


def library_of(path: Path) -> str:
    """Return the import name of the library that a spec file is about."""
    return path.stem.removeprefix("qual_")


LIBRARIES = [library_of(path) for path in SUITE.glob("qual_*.py")]


def kernels_of(path: Path) -> dict[str, str]:
    """Return what `kernel=` says in each spec of a file, by the spec's name."""
    return {
        function.name: ast.unparse(keyword.value)
        for function in ast.parse(path.read_text()).body
        if isinstance(function, ast.FunctionDef)
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call)
        for keyword in decorator.keywords
        if keyword.arg == "kernel"
    }


def run(path: Path, device: str, target: str, limit_s: float) -> dict[str, Any] | None:
    """Run pytest on a spec file and return its report; None, with what it printed, where there is none."""
    with TemporaryDirectory() as name:
        report = Path(name) / "report.json"
        command = [sys.executable, "-m", "pytest", "--kernelqual", str(path), "-q", "-p", "no:cacheprovider"]
        command += [f"--kernelqual-device={device}", f"--kernelqual-json={report}"]
        (rows := Path(name) / "rows").mkdir()  # those of this repository are of its own kernels
        command += ["-o", f"kernelqual_committed={rows}"]
        command += [f"--kernelqual-target={target}"] if target else []
        if not importlib.metadata.entry_points(group="pytest11", name="kernelqual"):  # a tree that is not installed
            command += ["-p", "pytest_kernelqual.plugin"]
        path_s = os.pathsep.join([str(ROOT), *sys.path[:1], os.environ.get("PYTHONPATH", "")])
        with Path(name, "log").open("w+") as log:
            running = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path_s}, stdout=log, stderr=subprocess.STDOUT
            )
            try:
                running.wait(limit_s)
            except subprocess.TimeoutExpired:
                running.terminate()  # it writes the report of what it has done
                with suppress(subprocess.TimeoutExpired):
                    running.wait(_ENDING_S)
                running.kill()
            if report.exists():
                document: dict[str, Any] = json.loads(report.read_text())
                return document
            log.seek(0)
            print(log.read(), file=sys.stderr)
        return None


def shown(rows: list[Row], environment: dict[str, Any], *, markdown: bool) -> str:
    """Return the table, what it was made with, and why things are as they are."""
    distributions = importlib.metadata.packages_distributions()
    names = {row.library: distributions[row.library][0] for row in rows}
    versions = {library: f"{name} {importlib.metadata.version(name)}" for library, name in names.items()}
    targets = list(dict.fromkeys(one["target"] for row in rows for case in cases(row) for one in case["targets"]))
    device = (environment.get("device") or {}).get("name", "")
    table = [
        [
            versions[row.library],
            row.kernel,
            str(len(cases(row))),
            str(max((len(case["candidates"]) for case in cases(row)), default=0)),
            *(counted(launches(row, target)) for target in targets),
            counted(candidates(row)),
            evidence(row),
        ]
        for row in rows
    ]
    headers = ["library", "kernel", "cases", "candidates", *targets, device, "evidence"]
    if markdown:
        table = [[line[0], f"`{line[1]}`", *line[2:]] for line in table]
    text = tabulate(table, headers, tablefmt="github" if markdown else "simple", disable_numparse=True)
    made_with = ", ".join(f"{name} {environment.get(name)}" for name in ("torch", "triton", "python"))
    libraries = len({row.library for row in rows})
    told = f"{len({row.kernel for row in rows})} kernels of {libraries} libraries; {device}, {made_with}"
    return "\n".join([told, "", text, "", *reasons(rows, targets), *agreement(rows, environment)])


def agreement(rows: list[Row], environment: dict[str, Any]) -> list[str]:
    """Hold what was said of the target that the device is against what it did, where it was a target too."""
    device = environment.get("device") or {}
    target = f"{device.get('kind')}:{str(device.get('architecture')).removeprefix('sm_')}"
    told: list[tuple[str, str, str]] = []
    for row in rows:
        for case in cases(row):
            really = {one["id"]: one["outcome"] for one in case["candidates"]}
            said = [one for record in case["targets"] if record["target"] == target for one in record["launches"]]
            told += [
                (f"{row.kernel} {one['id']}", one["outcome"], really[one["id"]])
                for one in said
                if one["id"] in really and one["outcome"] != "unknown" and really[one["id"]] != "not_run"
            ]
    if not told:
        return []
    wrong = [one for one in told if (one[1] == "fits") is (one[2] in _REFUSED)]
    lines = [f"{target} and {device['name']}: {len(told) - len(wrong)} of {len(told)} candidates agree"]
    return ["", *lines, *(f"* {name}: {said} on the target, {did} on the device" for name, said, did in wrong)]


def cases(row: Row) -> list[dict[str, Any]]:
    """Return the cases of a spec."""
    found: list[dict[str, Any]] = row.record["cases"]
    return found


def launches(row: Row, target: str) -> list[dict[str, Any]]:
    """Return the launches of a spec on a target, the fixed one among them."""
    records = [one for case in cases(row) for one in case["targets"] if one["target"] == target]
    return [launch for record in records for launch in record["launches"]]


def candidates(row: Row) -> list[dict[str, Any]]:
    """Return the candidates of a spec on the device, and fixed launches that are not as they must be."""
    fixed = [case["fixed"] for case in cases(row) if case["fixed"] and case["fixed"]["outcome"] != "qualified"]
    return [*fixed, *(one for case in cases(row) for one in case["candidates"])]


def counted(records: list[dict[str, Any]]) -> str:
    """Return how many have which outcome."""
    counts = Counter(record["outcome"] for record in records)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "nothing"


def evidence(row: Row) -> str:
    """Return how many candidates are how well proved."""
    counts = Counter(one["evidence"] for case in cases(row) for one in case["candidates"] if one["evidence"])
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def reasons(rows: list[Row], targets: list[str]) -> list[str]:
    """Return one line for each reason why something neither fits nor qualifies."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.record.get("problem"):
            found.setdefault(row.record["problem"].splitlines()[0].replace(f"{ROOT}/", ""), []).append(row.kernel)
        told = [(name, one) for name in targets for one in launches(row, name)]
        for place, one in [*told, *(("", record) for record in candidates(row))]:
            # What is compared with nothing tells so of each candidate.
            if one["outcome"] not in ("fits", "qualified") and not str(one["reason"]).startswith("no baseline"):
                where = f" on {place}" if place else ""
                found_here = one.get("detail", {}).get("mismatches")
                reason = (
                    found_here[0]["diagnosis"]
                    if found_here
                    else " ".join(str(one["reason"]).replace(f"{ROOT}/", "").split())[:200]
                )
                kernels = found.setdefault(f"{one['outcome']}{where}: {reason}", [])
                kernels += [row.kernel] if row.kernel not in kernels else []
    return [
        f"* {reason} ({', '.join(f'`{name}`' for name in names[:_MOST_REASONS])}"
        f"{', ...' if len(names) > _MOST_REASONS else ''})"
        for reason, names in found.items()
    ]


if __name__ == "__main__":
    sys.exit(main())

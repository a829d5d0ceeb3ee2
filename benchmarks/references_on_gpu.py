"""Run the specs with tolerances and oracles of `tests/sensitivity/references` on a GPU and compare their outcomes.

python benchmarks/references_on_gpu.py [--device=cuda]

Exits with 0 when every fixed launch and every candidate has the outcome that the interpreter gives it in the tests.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

TESTS = Path(__file__).parent.parent / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "sensitivity")]

from test_references import EXPECTED, FIXED, REFERENCES  # noqa: E402 - found on the path that was just set


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    with TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(REFERENCES, folder / "kernels")
        (folder / "pytest.ini").write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "--kernelqual", f"--kernelqual-device={device}", "-q"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        report = folder / "qualified-configurations.json"
        if not report.exists():
            sys.stderr.write(done.stdout + done.stderr)
            return 2
        document = json.loads(report.read_text())
    cases = {
        f"{kernel['kernel']}[{case['id']}]": {
            "fixed": case["fixed"],
            **{record["id"]: record for record in case["candidates"]},
        }
        for kernel in document["kernels"]
        for case in kernel["cases"]
    }
    wrong = []
    for item in {**cases, **EXPECTED}:
        seen = cases.get(item, {})
        expected = {"fixed": FIXED.get(item, ("qualified",))[0], **EXPECTED.get(item, {})}
        for id_ in {**seen, **expected}:
            found = seen.get(id_, {"outcome": "missing", "reason": ""})
            wanted = expected.get(id_, "missing").partition(" ")[0]
            if found["outcome"] != wanted:
                wrong.append(f"{item} {id_}: {found['outcome']} instead of {wanted}: {found['reason']}")
    told = document["environment"]["device"]
    sys.stdout.write(f"{told['name']}: {len(EXPECTED)} cases, {len(wrong)} outcomes are not as expected\n")
    sys.stdout.writelines(f"  {line}\n" for line in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

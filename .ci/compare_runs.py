"""Check that two runs decided alike: `python compare_runs.py A B` reads A.json, A.xml, B.json and B.xml.

Everything in the reports must agree but times, which devices of one kind were used, and rows of committed files for
whose compilation one of the runs had no time left.
So must the test cases of the JUnit files, in any order.
"""

import json
import sys
from difflib import unified_diff
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

_TIMES = {"started_at", "duration_s"}
_DEVICES = {"uuid", "devices", "device_uuid", "memory_bytes"}
_NO_TIME = "--kernelqual-target-budget="
_SHOWN_LINES = 40


def without_times(value: Any) -> Any:
    """Return a JSON value without the fields that hold times or tell devices of one kind apart."""
    if isinstance(value, dict):
        return {name: without_times(item) for name, item in value.items() if name not in _TIMES | _DEVICES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def reports(*paths: str) -> list[list[str]]:
    """Return the lines of reports, times aside, in the order of the files."""
    documents = [without_times(json.loads(Path(path).read_text())) for path in paths]
    rows = [row for document in documents for row in document["compiled_rows"]]
    unsettled = {(row["nodeid"], row["target"]) for row in rows if _NO_TIME in json.dumps(row)}
    for document in documents:
        document["compiled_rows"] = [
            row for row in document["compiled_rows"] if (row["nodeid"], row["target"]) not in unsettled
        ]
    return [json.dumps(document, indent=1).splitlines() for document in documents]


def junits(*paths: str) -> list[list[str]]:
    """Return the lines of JUnit files."""
    return [junit(path) for path in paths]


def junit(path: str) -> list[str]:
    """Return one line for each test case of a JUnit file: its name and how it ended."""
    cases = ET.parse(path).getroot().iter("testcase")  # noqa: S314 - our own file
    return sorted(
        f"{case.get('classname')}::{case.get('name')} {' '.join(sorted(child.tag for child in case))}" for case in cases
    )


def main(first: str, second: str) -> int:
    """Print the first differences and return 1 where there are any."""
    status = 0
    for suffix, read in ((".json", reports), (".xml", junits)):
        a, b = read(first + suffix, second + suffix)
        if not a or a != b:
            difference = list(unified_diff(a, b, first + suffix, second + suffix, n=2, lineterm=""))
            print("\n".join(difference[:_SHOWN_LINES]) or f"{first}{suffix} holds nothing")
            status = 1
        else:
            print(f"{suffix}: {len(a)} lines agree")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Check that two runs decided alike: `python compare_runs.py A B` reads A.json, A.xml, B.json and B.xml.

Everything in the reports must agree but times, and which devices of one kind were used.
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
_SHOWN_LINES = 40


def without_times(value: Any) -> Any:
    """Return a JSON value without the fields that hold times or tell devices of one kind apart."""
    if isinstance(value, dict):
        return {name: without_times(item) for name, item in value.items() if name not in _TIMES | _DEVICES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def report(path: str) -> list[str]:
    """Return the lines of a report, times aside, in the order of the file."""
    return json.dumps(without_times(json.loads(Path(path).read_text())), indent=1).splitlines()


def junit(path: str) -> list[str]:
    """Return one line for each test case of a JUnit file: its name and how it ended."""
    cases = ET.parse(path).getroot().iter("testcase")  # noqa: S314 - our own file
    return sorted(
        f"{case.get('classname')}::{case.get('name')} {' '.join(sorted(child.tag for child in case))}" for case in cases
    )


def main(first: str, second: str) -> int:
    """Print the first differences and return 1 where there are any."""
    status = 0
    for suffix, read in ((".json", report), (".xml", junit)):
        a, b = read(first + suffix), read(second + suffix)
        if not a or a != b:
            difference = list(unified_diff(a, b, first + suffix, second + suffix, n=2, lineterm=""))
            print("\n".join(difference[:_SHOWN_LINES]) or f"{first}{suffix} holds nothing")
            status = 1
        else:
            print(f"{suffix}: {len(a)} lines agree")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

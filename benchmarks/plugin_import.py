"""Print the CPU time of importing and registering the plugin: `python benchmarks/plugin_import.py [--runs N]`.

Each run is a process of its own in which pytest is loaded already; exits with 1 above the limit of 15 ms.
"""

import argparse
import os
import statistics
import subprocess
import sys

LIMIT_MS = 15.0

_CHILD = """
import time
from _pytest.config import get_config
config = get_config()
config.parse(["--noconftest"])
config.option.kernelqual = False
began = time.process_time()
import pytest_kernelqual.plugin as plugin
config.pluginmanager.register(plugin, "kernelqual")  # declares options and hooks
plugin.pytest_configure(config)
print((time.process_time() - began) * 1e3)
"""


def main() -> int:
    """Run the child processes and print the median and the range."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="processes to start; default 15")
    runs = parser.parse_args().runs
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # or parsing would load the plugin
    took_ms = []
    for _ in range(runs):
        child = subprocess.run(
            [sys.executable, "-c", _CHILD], env=environment, check=True, capture_output=True, text=True
        )
        took_ms.append(float(child.stdout))
    median_ms = statistics.median(took_ms)
    print(f"import and registration: median {median_ms:.1f} ms of CPU, {min(took_ms):.1f} to {max(took_ms):.1f} ms")
    print(f"limit: {LIMIT_MS:.0f} ms: {'kept' if median_ms <= LIMIT_MS else 'EXCEEDED'}")
    return 0 if median_ms <= LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_kernels_agree_with_references_under_the_interpreter() -> None:
    """Elementwise, normalisation, vocabulary and policy kernels, in a process where triton is interpreted."""
    path = os.pathsep.join(filter(None, [str(ROOT / "kernels"), os.environ.get("PYTHONPATH")]))
    plugins = ["-p", "no:cacheprovider", "-p", "no:kernelqual", "-p", "no:xdist"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, str(ROOT / "tests" / "kernels_a_reference.py")],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d{2,} passed", done.stdout, re.MULTILINE), done.stdout

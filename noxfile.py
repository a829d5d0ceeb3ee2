"""Sessions beyond what `.ci/run` covers: `nox -s tests` on every Python and triton, `nox -s lint`."""

from pathlib import Path

import nox

nox.needs_version = ">=2024.4"
nox.options.sessions = ["lint", "tests"]
nox.options.error_on_missing_interpreters = True

PYTHONS = ["3.11", "3.12", "3.13"]
# The oldest and the newest that are supported, and the one of constraints.txt.
TRITONS = ["3.6.0", "3.7.1", "3.9.0"]
# The interpreter of triton 3.6 converts arrays in a way that numpy 2.4 has ended.
OLDER_NUMPY = {"3.6.0": ["numpy==2.3.5"]}


@nox.session(python=PYTHONS)
@nox.parametrize("triton", TRITONS)
def tests(session: nox.Session, triton: str) -> None:
    """Run the tests; arguments after `--` go to pytest."""
    session.install("-c", "constraints.txt", "-e", ".[torch,triton,test]")
    folder = session.create_tmp()
    # Without dependencies and in front of the path: torch asks for the triton that it was built with.
    session.install("--no-deps", "--upgrade", "--target", folder, f"triton=={triton}", *OLDER_NUMPY.get(triton, []))
    session.run("pytest", "-p", "no:cacheprovider", *session.posargs, env={"PYTHONPATH": folder})


@nox.session(python=PYTHONS[0])
def lint(session: nox.Session) -> None:
    """Check style, types and the direction of imports."""
    # Types are checked against the installed torch, pytest and msgspec.
    session.install("-c", "constraints.txt", "-e", ".[torch,triton,test]", "nox")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    scripts = sorted(str(path) for path in Path(".github/scripts").glob("*.py"))
    session.run("mypy", "noxfile.py", "conftest.py", ".ci/compare_runs.py", *scripts)
    session.run("lint-imports")

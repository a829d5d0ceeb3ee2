"""What --kernelqual collects, under which node ids, and how pytest's own selection works on it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from scenarios import OPS, Runs, run_pytest, runs, write


def spec(name: str, *, ops: str = "ops", cases: str = "[Case(n=10)]", marks: str = "()") -> str:
    """Return a spec file of one spec; its builder leaves a file `built` where it was called."""
    return f"""
        from pathlib import Path
        from {ops} import double, double_kernel
        from pytest_kernelqual import Case, grid, kernel_spec

        @kernel_spec(kernel=double_kernel, candidates=grid(BLOCK=[32]), cases={cases}, marks={marks})
        def {name}(case, seeded):
            Path(__file__).with_name("built").touch()
            x = seeded.normal((case.n,))
            return lambda: double(x)
    """


# Says at the end which heavy modules the pytest process holds.
TELLS_MODULES = """
    import sys

    def pytest_unconfigure():
        held = sorted({"torch", "triton", "ops", "qual_a", "qual_b", "qual_norm"} & sys.modules.keys())
        print("HELD", held, file=sys.__stderr__)
"""

TWO_CASES = '[Case(rows=4, n=64, dtype="bfloat16"), Case(rows=3, n=5, dtype="float16")]'

SUITE = {
    "conftest.py": TELLS_MODULES,
    "kernels/ops.py": OPS,
    "kernels/qual_norm.py": spec("norm", cases=TWO_CASES, marks="['slow']"),
    "kernels/qual_a.py": spec("first"),
    "kernels/sub/qual_b.py": spec("second", cases="[Case(n=7), Case(n=8)]"),
    "kernels/test_ordinary.py": "def test_ordinary(): raise AssertionError\n",
    "elsewhere/qual_far.py": spec("far"),
    "tests/test_plain.py": "def test_plain(): pass\n",
    "pytest.ini": "[pytest]\nmarkers =\n    slow: takes long\n",
}

NORM = [f"kernels/qual_norm.py::norm::test_candidates[rows{case}]" for case in ("4-n64-bfloat16", "3-n5-float16")]
FIRST = ["kernels/qual_a.py::first::test_candidates[n10]"]
SECOND = [f"kernels/sub/qual_b.py::second::test_candidates[n{n}]" for n in (7, 8)]
LIST = ("--collect-only", "-q", "-p", "no:randomly")

STRANGE_INI = """
    [pytest]
    kernelqual_files = *_spec.py lib/t*.py
    kernelqual_paths = src
    python_functions = check_*
    python_classes = Check
    python_files = check_*.py
"""

PACKAGE = {
    "pkg/__init__.py": "",
    "pkg/kernels/__init__.py": "",
    "pkg/kernels/ops.py": OPS,
    "pkg/kernels/qual_x.py": spec("inside", ops=".ops"),
    "other/qual_x.py": spec("outside", ops="pkg.kernels.ops"),
}

BROKEN = {
    "ops.py": OPS,
    "qual_broken.py": "raise ValueError('planted at import')\n",
    "qual_wrong.py": spec("wrong").replace("BLOCK=", "BLOK="),
    "pytest.ini": "[pytest]\n",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Start the runs of this file."""
    root = tmp_path_factory.mktemp("collection")
    with runs(root) as started:
        started.start("default", SUITE, *LIST)
        started.start("subfolder", SUITE, *LIST, cwd="kernels/sub")
        started.start("given", SUITE, "elsewhere", "kernels/qual_norm.py", "kernels/sub", "tests", *LIST)
        started.start("ids", SUITE, f"../qual_norm.py::{NORM[0].partition('::')[2]}", f"{root}/ids/{FIRST[0]}", *LIST,
                      cwd="kernels/sub")  # fmt: skip
        started.start("marks", SUITE, "-m", "slow", *LIST)
        started.start("keyword", SUITE, "-k", "second and n7 or first", *LIST)
        started.start("doctests", SUITE, "--doctest-modules", *LIST)
        started.start("plain", SUITE, "--doctest-modules", "kernels/qual_a.py", "tests", kernelqual=False)
        started.start("off", SUITE, "-p", "no:kernelqual", "tests", "kernels/sub", kernelqual=False)
        strange = {"src/ops.py": OPS, "src/one_spec.py": spec("one"), "src/qual_no.py": "raise AssertionError\n",
                   "src/lib/ops.py": OPS, "src/lib/two.py": spec("two"), "pytest.ini": STRANGE_INI}  # fmt: skip
        started.start("strange", strange, *LIST)
        started.start("named", strange, "src/lib/../qual_no.py", *LIST)
        started.start("package", {**PACKAGE, "pytest.ini": "[pytest]\n"}, "pkg", "-rA")
        started.start("append", {**PACKAGE, "pytest.ini": "[pytest]\n"}, "pkg", "--import-mode=append", *LIST)
        started.start("importlib", PACKAGE, "pkg", "other", "--import-mode=importlib", "--rootdir=.", "-rA")
        path = "import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'lib'))\n"
        late = {"src/lib/ops.py": OPS, "src/kernels/conftest.py": path, "src/kernels/qual_a.py": spec("a")}
        started.start("late", late, "src", "--rootdir=.", *LIST)
        twins = {"a/ops.py": OPS, "a/qual_x.py": spec("one"), "b/qual_x.py": spec("two"), "pytest.ini": "[pytest]\n"}
        started.start("twins", twins, "a", "b", "-rA", "-p", "no:randomly")
        started.start("lost", BROKEN, "qual_broken.py::rms::test_candidates[n1]",
                      "qual_wrong.py::wrong::test_candidates[n10]")  # fmt: skip
        yield started


def test_node_ids(ran: Runs) -> None:
    """Those of DESIGN 3, for the default paths alone; hand-written tests without the marker are left out."""
    assert sorted(ran["default"].collected) == sorted(FIRST + NORM + SECOND)
    assert ran["default"].status == 0


def test_cases_keep_their_order(ran: Runs) -> None:
    """As declared, and not by name."""
    collected = ran["default"].collected
    assert [nodeid for nodeid in collected if "norm" in nodeid] == NORM


def test_collecting_runs_nothing(ran: Runs) -> None:
    """No builder was called, and neither report nor journal was written."""
    default = ran["default"]
    assert not list(default.folder.glob("qualified-configurations*"))
    assert not list(default.folder.rglob("built"))
    assert (ran["package"].folder / "pkg" / "kernels" / "built").exists()


def test_pytest_process_imports_no_kernels(ran: Runs) -> None:
    """Neither under --kernelqual, --doctest-modules included, nor in a plain run in which a spec file is named."""
    for name in ("default", "doctests", "plain"):
        assert re.search(r"HELD \[\]$", ran[name].output, re.MULTILINE), ran[name].output
    assert sorted(ran["doctests"].collected) == sorted(FIRST + NORM + SECOND)


def test_default_paths_count_from_the_root_folder(ran: Runs) -> None:
    """Wherever pytest is called."""
    assert sorted(ran["subfolder"].collected) == sorted(FIRST + NORM + SECOND)


def test_given_paths_replace_the_default_ones(ran: Runs) -> None:
    """Folders and node ids, relative and absolute."""
    far = ["elsewhere/qual_far.py::declaration::test_declaration"]  # it does not find `ops`
    assert sorted(ran["given"].collected) == sorted(far + NORM + SECOND)
    assert sorted(ran["ids"].collected) == sorted([NORM[0], *FIRST])


def test_selection_by_mark_and_keyword(ran: Runs) -> None:
    """`marks=` of a spec is seen by -m, case ids by -k."""
    assert ran["marks"].collected == NORM
    assert sorted(ran["keyword"].collected) == sorted(FIRST + SECOND[:1])


def test_plain_run_collects_no_spec_and_says_a_word(ran: Runs) -> None:
    """The ordinary tests run."""
    plain = ran["plain"]
    assert plain.status == 0
    assert "1 passed" in plain.output
    assert "kernelqual: kernels/qual_a.py declares kernels to qualify; add --kernelqual to run it" in plain.output


def test_plugin_can_be_switched_off(ran: Runs) -> None:
    """And nothing of it remains."""
    assert ran["off"].status == 0
    assert "kernelqual" not in re.sub(r"(?m)^(rootdir|plugins): .*$", "", ran["off"].output)


def test_users_own_patterns(ran: Runs) -> None:
    """Spec files by name or by path, whatever functions and classes the ordinary tests have."""
    ids = ["src/lib/two.py::two::test_candidates[n10]", "src/one_spec.py::one::test_candidates[n10]"]
    assert sorted(ran["strange"].collected) == ids


def test_file_named_on_the_command_line_is_a_spec_file(ran: Runs) -> None:
    """Whatever its name; it is not imported here as a test module."""
    assert ran["named"].collected == ["src/qual_no.py::declaration::test_declaration"]


def test_packages_and_import_modes(ran: Runs) -> None:
    """Relative imports work in each; one name in two folders needs packages or importlib."""
    inside, outside = (f"{path}/qual_x.py::{name}::test_candidates[n10]" for path, name in
                       (("pkg/kernels", "inside"), ("other", "outside")))  # fmt: skip
    assert ran["package"].passed == {inside}, ran["package"].output
    assert ran["append"].collected == [inside]
    assert ran["importlib"].passed == {inside, outside}, ran["importlib"].output


def test_conftest_below_the_given_path_may_alter_the_import_path(ran: Runs) -> None:
    """The device process is running by then."""
    assert ran["late"].collected == ["src/kernels/qual_a.py::a::test_candidates[n10]"]


def test_two_spec_files_of_one_name(ran: Runs) -> None:
    """The second one cannot be imported, and says what to do."""
    twins = ran["twins"]
    assert twins.passed == {"a/qual_x.py::one::test_candidates[n10]"}
    (reason,) = twins.failed.values()
    assert "two files of one name; rename one or add __init__.py" in reason


def test_id_of_a_broken_spec_tells_why_it_is_not_found(ran: Runs) -> None:
    """An id copied from an earlier run."""
    lost = ran["lost"]
    assert lost.status != 0
    assert "ValueError: planted at import" in lost.output
    assert "did you mean 'BLOCK'" in lost.output


def test_stop_at_the_first_failure_and_run_it_again(tmp_path: Path) -> None:
    """`-x` and `--lf` know the items of ours."""
    wrong = spec("b_wrong").replace("double(x)", "double(x) if seeded.seed < 0 else None")
    write(tmp_path, {"ops.py": OPS, "qual_a.py": spec("a"), "qual_b.py": wrong, "qual_c.py": spec("c")})
    write(tmp_path, {"pytest.ini": "[pytest]\nkernelqual_paths = .\n"})
    first = run_pytest(tmp_path, "-x", "-rA", "-p", "no:randomly")
    assert (first.passed, set(first.failed)) == (
        {"qual_a.py::a::test_candidates[n10]"},
        {"qual_b.py::b_wrong::test_candidates[n10]"},
    )
    again = run_pytest(tmp_path, "--lf", *LIST)
    assert again.collected == ["qual_b.py::b_wrong::test_candidates[n10]"]

"""The selection-space token: moved by any change of what a config was chosen for, and by nothing else."""

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from textwrap import dedent, indent
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection_space_samples import CLOSURES, HELPERS, KERNEL, OTHER, SAME, STATEMENTS, WRAPPED

from pytest_kernelqual.committed.space import token
from pytest_kernelqual.committed.syntax import dump
from pytest_kernelqual.errors import DeclarationError
from pytest_kernelqual.model.config import Config, grid

CANDIDATES = grid(BLOCK=[64, 128], num_warps=[4, 8])
_NUMBERS = count()


@pytest.fixture(autouse=True)
def _modules_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take what a test imported out of `sys.modules`."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("helpers_of_kernel", "kernel_module", "pack")):
            monkeypatch.delitem(sys.modules, name, raising=False)


def load(folder: Path, source: str, name: str = "kernel_module") -> ModuleType:
    """Write a module to a new folder and import it from there."""
    folder = folder / f"of_{next(_NUMBERS)}"
    folder.mkdir()
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def of(folder: Path, kernel: str = KERNEL, helpers: str = HELPERS, root: str = "launch") -> str:
    """Return the token of a function of two modules."""
    load(folder, helpers, "helpers_of_kernel")
    return token(CANDIDATES, [getattr(load(folder, kernel), root)])


def edit(source: str, old: str, new: str) -> str:
    """Return the source with one text replaced, which must be there."""
    assert old in source
    return source.replace(old, new)


@pytest.mark.parametrize(("old", "new"), SAME)
def test_layout_does_not_move_the_token(tmp_path: Path, old: str, new: str) -> None:
    """Comments, docstrings, blank lines, moves, spelling of constants and unused code are no change."""
    assert of(tmp_path, edit(KERNEL, old, new)) == of(tmp_path)


@pytest.mark.parametrize(("old", "new"), OTHER)
def test_code_moves_the_token(tmp_path: Path, old: str, new: str) -> None:
    """Any change of the code that a launch reaches, or of a constant that it uses, is a change."""
    assert of(tmp_path, edit(KERNEL, old, new)) != of(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        ("SCALE = 2", "SCALE = 3", True),
        ("x * SCALE", "x + SCALE", True),
        ("even(n - 1)", "even(n - 2)", True),
        ("UNUSED = 5", "UNUSED = 6", False),
        ("return TABLE[name]", "return TABLE", False),
        ('"a": 1', '"a": 2', False),
    ],
)
def test_modules_of_the_project_are_followed(tmp_path: Path, old: str, new: str, moved: bool) -> None:  # noqa: FBT001 - a parameter of a test
    """What is used of another module counts, directly, by attribute and in a cycle; what is not used does not."""
    assert (of(tmp_path, helpers=edit(HELPERS, old, new)) != of(tmp_path)) == moved


def test_mutable_tables_count_by_the_source_that_fills_them(tmp_path: Path) -> None:
    """A table is followed into the module that makes it."""
    uses = edit(KERNEL, "doubled as twice", "TABLE, looked_up as twice")
    changed = edit(HELPERS, "[2, 3]", "[2, 4]")
    assert of(tmp_path, uses, changed) != of(tmp_path, uses)


def test_order_of_functions_in_the_file_is_irrelevant(tmp_path: Path) -> None:
    """Definitions may move about the module."""
    head, tile, rest = KERNEL.partition("@lru_cache(maxsize=None)")
    body, kernel, after = rest.partition("def kernel(")
    assert of(tmp_path, f"{head}{kernel}{after}\n{tile}{body}") == of(tmp_path)


def test_what_ran_does_not_move_the_token(tmp_path: Path) -> None:
    """Filled caches and counted calls are no change of the code."""
    load(tmp_path, HELPERS, "helpers_of_kernel")
    module = load(tmp_path, KERNEL)
    before = token(CANDIDATES, [module.launch])
    module.launch(3)
    module.LIMITS.append(4)
    assert (module._calls, len(module._cache)) == (1, 1)
    assert token(CANDIDATES, [module.launch]) == before


def test_the_machine_does_not_move_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant that is computed from the machine counts by its source, so that no device is needed to check it."""
    here = of(tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 12345)
    assert of(tmp_path) == here
    derived = edit(KERNEL, "BLOCK = 128", "BLOCK = os.cpu_count() + 1")
    one = of(tmp_path, derived)
    monkeypatch.setattr(os, "cpu_count", lambda: 54321)
    assert of(tmp_path, derived) == one


@pytest.mark.parametrize("where", ["__file__", "os.path.dirname(__file__)", "__file__ + '.x'"])
def test_the_folder_does_not_move_the_token(tmp_path: Path, where: str) -> None:
    """Code that knows where it lies has the same token everywhere."""
    source = edit(KERNEL, "BLOCK = 128", f"HERE = {where}\nBLOCK = len(HERE)")
    assert of(tmp_path, source) == of(tmp_path, source)


def test_candidates_count_as_a_set(tmp_path: Path) -> None:
    """Order and repetition are irrelevant; another value, name or type is a change."""
    load(tmp_path, HELPERS, "helpers_of_kernel")
    launch = load(tmp_path, KERNEL).launch
    sample = token(CANDIDATES, [launch])
    assert token([*reversed(CANDIDATES), CANDIDATES[0]], [launch]) == sample
    assert (
        token([Config({name: config[name] for name in reversed(list(config))}) for config in CANDIDATES], [launch])
        == sample
    )
    others = [
        CANDIDATES[1:],
        [*CANDIDATES, Config(BLOCK=256, num_warps=4)],
        grid(BLOCK=[64, 128], num_warps=[4, 8.0]),
        grid(BLOCK=["64", 128], num_warps=[4, 8]),
        grid(block=[64, 128], num_warps=[4, 8]),
        [],
        [Config(flag=True)],
        [Config(flag=1)],
        [Config(flag=None)],
    ]
    tokens = {token(other, [launch]) for other in others}
    assert len(tokens | {sample}) == len(others) + 1


@given(st.permutations(CANDIDATES))
@settings(deadline=None, max_examples=10)
def test_no_order_of_candidates_moves_the_token(order: list[Config]) -> None:
    """Every order has one token."""
    assert token(order, [edit]) == token(CANDIDATES, [edit])


@pytest.mark.parametrize(
    ("root", "old", "new", "moved"),
    [
        ("tuned", "[1, *STAGES]", "[2, *STAGES]", False),
        ("tuned", "STAGES = [2, 3]", "STAGES = [2, 4]", False),
        ("tuned", 'STAGES], key=["n"]', 'STAGES], key=["m"]', True),
        ("tuned", "return x + 1", "return x + 2", True),
        ("also_tuned", "configs=STAGES", "configs=[]", False),
        ("builder", "cases=[1, 2]", "cases=[1, 2, 3]", False),
        ("builder", "candidates=STAGES", "candidates=[]", False),
        ("builder", "tuned(case)", "also_tuned(case)", True),
        ("builder", "return x + 1", "return x + 2", True),
    ],
)
def test_declared_candidates_and_cases_are_no_source(
    tmp_path: Path,
    root: str,
    old: str,
    new: str,
    moved: bool,  # noqa: FBT001 - a parameter of a test
) -> None:
    """Configs of autotune and the declaration of a spec are data; another case makes no row stale."""
    one, other = load(tmp_path, WRAPPED), load(tmp_path, edit(WRAPPED, old, new))
    assert (token([], [getattr(one, root)]) != token([], [getattr(other, root)])) == moved


def test_a_wrapped_kernel_is_its_function(tmp_path: Path) -> None:
    """The wrappers around a function are looked through."""
    module = load(tmp_path, WRAPPED)
    assert token([], [module.tuned]) == token([], [module.tuned.fn])


def test_closures_and_lambdas_are_told_apart(tmp_path: Path) -> None:
    """What a closure holds counts, and lambdas of one line are different functions."""
    module = load(tmp_path, CLOSURES)
    functions = [module.one, module.two, module.plus, module.minus, module.nested, module.nested(), module.remembered]
    assert len({token([], [function]) for function in functions}) == len(functions)
    again = load(tmp_path, f"# moved\n\n{CLOSURES}")
    module.remembered(4)
    others = [again.one, again.two, again.plus, again.minus, again.nested, again.nested(), again.remembered]
    assert [token([], [item]) for item in functions] == [token([], [item]) for item in others]
    changed = load(tmp_path, edit(CLOSURES, "x + 1\n\none", "x + 2\n\none"))
    assert token([], [changed.remembered]) != token([], [module.remembered])


def test_methods_are_followed(tmp_path: Path) -> None:
    """A bound method is its function."""
    load(tmp_path, HELPERS, "helpers_of_kernel")
    one, other = load(tmp_path, KERNEL), load(tmp_path, edit(KERNEL, "depth * HALF", "depth - HALF"))
    assert token([], [one.OPTIONS.stages]) != token([], [other.OPTIONS.stages])


def test_number_and_order_of_functions_count(tmp_path: Path) -> None:
    """A kernel and its launch are two things."""
    module = load(tmp_path, CLOSURES)
    calls: list[list[Callable[..., object]]] = [
        [module.plus], [module.minus], [module.plus, module.minus], [module.minus, module.plus], [],
    ]  # fmt: skip
    assert len({token([], functions) for functions in calls}) == len(calls)


def test_a_package_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative imports, submodules, attributes of submodules and star imports lead to their modules."""
    monkeypatch.syspath_prepend(tmp_path)
    tokens = []
    files = {"a": "A = 1", "b": "B = 1", "c": "def c():\n    return 1", "d": "D = 1\nE = 1"}
    for number, changed in enumerate([None, *files]):
        package = tmp_path / f"pack{number}"
        (package / "sub").mkdir(parents=True)
        for name, text in files.items():
            (package / "sub" / f"{name}.py").write_text(edit(text, "1", "2") if name == changed else text)
        (package / "sub" / "__init__.py").write_text("")
        (package / "__init__.py").write_text("from . import sub")
        (package / "main.py").write_text(
            dedent(
                f"""
                import pack{number}.sub.b
                import pack{number} as top
                from .sub import a
                from .sub.c import c
                from .sub.d import *

                def main():
                    return a.A, top.sub.b.B, c(), D
                """
            )
        )
        module = importlib.import_module(f"pack{number}.main")
        assert module.main()
        tokens.append(token([], [module.main]))
    assert len(set(tokens)) == len(tokens)


def test_installed_code_counts_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an installer put somewhere is toolchain, not project: a change of it is no change of the space."""
    tokens = []
    for number, (text, installed) in enumerate([("x = 1", True), ("x = 2", True), ("x = 1", False), ("x = 2", False)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "helpers_of_kernel.py").write_text(f"{text}\ndef used():\n    return x")
        if installed:
            (folder / "helpers_of_kernel-1.0.dist-info").mkdir()
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            sys.modules.pop("helpers_of_kernel", None)
            module = load(tmp_path, "from helpers_of_kernel import used\ndef root():\n    return used()")
            tokens.append(token([], [module.root]))
    assert tokens[0] == tokens[1]
    assert len(set(tokens)) == 3


@pytest.mark.parametrize("function", [len, print, 3, None, ModuleType, Path.cwd().exists().__class__])
def test_what_has_no_source_is_told(function: object) -> None:
    """A built-in function has no source to hash."""
    with pytest.raises(DeclarationError, match="no Python function"):
        token([], [function])  # type: ignore[list-item]


def test_a_function_without_a_file_is_told() -> None:
    """A function made from a string is one clear line."""
    namespace: dict[str, Callable[..., object]] = {}
    exec("def made():\n    return 1", namespace)  # noqa: S102 - the case under test
    with pytest.raises(DeclarationError, match="the source of made cannot be read"):
        token([], [namespace["made"]])


def test_a_file_that_changed_under_the_process_is_told(tmp_path: Path) -> None:
    """The token is never that of other code than what runs."""
    module = load(tmp_path, "def kernel():\n    return 1\n")
    Path(str(module.__file__)).write_text("import os\n\n\ndef kernel():\n    return 10\n")
    with pytest.raises(DeclarationError, match="unchanged file"):
        token([], [module.kernel])


def test_code_nested_without_end_is_told(tmp_path: Path) -> None:
    """A generated expression costs one line, not a traceback."""
    module = load(tmp_path, f"def kernel(x):\n    return {' + '.join(['x'] * 1500)}")
    with pytest.raises(DeclarationError, match="nested too deeply"):
        token([], [module.kernel])


GOLDEN = "sha256:5ce785543bb64c58d4586be32fc02a42f9f1424a64c982c06c6830083d0c6456"


def test_every_process_and_python_has_one_token(tmp_path: Path) -> None:
    """Tokens are in users' repositories: neither a new process nor another Python may move them."""
    here = of(tmp_path)
    code = (
        f"import sys, importlib; sys.path[:0] = [{str(tmp_path)!r}, {str(Path(__file__).parent.parent)!r}]\n"
        "import kernel_module; from pytest_kernelqual.committed.space import token\n"
        "from pytest_kernelqual.model.config import grid\n"
        "print(token(grid(num_warps=[8, 4], BLOCK=[128, 64]), [kernel_module.launch]))"
    )
    (tmp_path / "kernel_module.py").write_text(KERNEL)
    (tmp_path / "helpers_of_kernel.py").write_text(HELPERS)
    for seed in ("1", "2"):
        told = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert told.stdout.strip() == here
    assert here == GOLDEN


def test_the_interpreter_and_the_compiler_have_one_token() -> None:
    """A machine without a device sees the staleness of rows that a device measured: GEMM asks what runs it."""
    root = Path(__file__).parent.parent
    code = (
        f"import sys; sys.path[:0] = [{str(root)!r}, {str(root / 'kernels')!r}]\n"
        "import gemm, triton; from pytest_kernelqual.committed.space import token\n"
        "kernels = [item for item in vars(gemm).values() if isinstance(item, triton.KernelInterface)]\n"
        "print(gemm._INTERPRETED.value, *[token([], [kernel]) for kernel in kernels])"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "TRITON_INTERPRET": interpreted},
        ).stdout.split()
        for interpreted in ("0", "1")
    ]
    assert [line[0] for line in told] == ["False", "True"]
    assert told[0][1:] == told[1][1:]
    assert len(set(told[0][1:])) == len(told[0][1:]) > 0


@given(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=4), st.lists(st.sampled_from(STATEMENTS), max_size=4))
@settings(deadline=None)
def test_different_code_is_dumped_differently(one: list[str], other: list[str]) -> None:
    """Dumps are equal exactly where the statements are, and survive being laid out anew."""
    trees = [ast.parse("def f():\n" + indent("\n".join([*body, "last"]), "    ")) for body in (one, other)]
    assert (dump(trees[0]) == dump(trees[1])) == (one == other)
    assert dump(ast.parse(ast.unparse(trees[0]))) == dump(trees[0])

"""Imports inside of functions: the token follows them by the files of modules, whether these are loaded or not."""

import importlib
import sys
from itertools import count
from pathlib import Path

import pytest
from selection_space_samples import HELPERS
from test_selection_space import edit, load

from pytest_kernelqual.committed.space import token

_NUMBERS = count()

OP = """
import math
from math import pi
from helpers_of_kernel import SCALE as scale

UNUSED = 1

def f(x):
    return scale * g(x) * pi * math.e * len(str(x))

def g(x):
    from helpers_of_kernel import double
    return double(x)

class Options:
    def depth(self):
        return g(2)
"""
INSIDE = """
def build(case):
    {}
    return lambda config: {}
"""
FORMS = pytest.mark.parametrize(
    ("statement", "use"),
    [
        ("from op_of_kernel import f", "f(case)"),
        ("from op_of_kernel import f as other", "other(case)"),
        ("import op_of_kernel", "op_of_kernel.f(case)"),
        ("import op_of_kernel as op", "op.f(case)"),
        ("import folder_of_kernel.op", "folder_of_kernel.op.f(case)"),
        ("from folder_of_kernel import op", "op.f(case)"),
        ("from folder_of_kernel.again import f", "f(case)"),
        ("from folder_of_kernel.again import op", "op.f(case)"),
        ("from folder_of_kernel.all_of_it import f", "f(case)"),
        ("from op_of_kernel import Options", "Options().depth()"),
    ],
)


class Inside:
    """A project whose builder imports what it launches when it runs."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keep where projects are written, each to a folder of its own."""
        self.folder = folder
        self.monkeypatch = monkeypatch

    def token(self, statement: str, use: str, op: str = OP, helpers: str = HELPERS, *, loaded: bool = False) -> str:
        """Return the token of the builder, after its modules were imported by something else if they are `loaded`."""
        folder = self.folder / f"project_{next(_NUMBERS)}"
        (folder / "folder_of_kernel").mkdir(parents=True)
        files = {
            "op_of_kernel.py": op,
            "helpers_of_kernel.py": helpers,
            "builder_of_kernel.py": INSIDE.format(statement, use),
            "folder_of_kernel/__init__.py": "",
            "folder_of_kernel/op.py": op,
            "folder_of_kernel/again.py": "from . import op\nfrom .op import f",
            "folder_of_kernel/all_of_it.py": "from .again import *\nfrom .op import *",
        }
        for name, text in files.items():
            (folder / name).write_text(text)
        with self.monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            importlib.invalidate_caches()
            for name in [name for name in sys.modules if "of_kernel" in name]:
                patch.delitem(sys.modules, name)
            names = [".".join(Path(name).with_suffix("").parts) for name in files]
            try:
                build = importlib.import_module("builder_of_kernel").build
                for name in names if loaded else ():
                    importlib.import_module(name.removesuffix(".__init__"))
                made = token([], [build])
                if not loaded:
                    assert {name for name in sys.modules if "of_kernel" in name} == {"builder_of_kernel"}
                assert callable(build(3))  # what it imports is there
                return made
            finally:
                for name in [name for name in sys.modules if "of_kernel" in name]:
                    del sys.modules[name]


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """Write such projects."""
    return Inside(tmp_path, monkeypatch)


@FORMS
def test_imports_inside_functions_are_followed(inside: Inside, statement: str, use: str) -> None:
    """To what they use, and to what that uses; nothing is imported for it, and what is loaded counts the same."""
    one = inside.token(statement, use)
    assert inside.token(statement, use) == one
    assert inside.token(statement, use, loaded=True) == one
    assert inside.token(statement, use, edit(OP, "return double(x)", "return -double(x)")) != one
    assert inside.token(statement, use, edit(OP, "UNUSED = 1", "UNUSED = 2")) == one
    doubled = "def double(x):\n    return {}\n"
    assert inside.token(statement, use, helpers=HELPERS + doubled.format("x * 2")) != inside.token(
        statement, use, helpers=HELPERS + doubled.format("x + x")
    )


def test_what_a_module_of_an_inner_import_takes_from_libraries_counts_by_name(inside: Inside) -> None:
    """As of any module."""
    form = ("from op_of_kernel import f", "f(case)")
    one = inside.token(*form)
    assert inside.token(*form, edit(OP, "import pi", "import tau as pi")) != one
    assert inside.token(*form, edit(OP, "SCALE as scale", "TABLE as scale")) != one


ADDS_NOTHING = {
    "import json as op": "sha256:7c37e0802fe113dbb87a0229526077b40424b306335230ee44dc8fb05e0fde95",
    "from no_module_of_kernel import op": "sha256:a00ac9c9b4b5aa684b84c9074f57b9a7e33903b69b2feb1bbf549c5aaa6030e2",
    "from ... import op": "sha256:e4b7f860b3f89a8575a0bc0ff439889930d5dc55676ceec0f9971805d21e3702",
}


@pytest.mark.parametrize("statement", ADDS_NOTHING)
def test_inner_imports_of_what_is_no_code_of_the_project_add_nothing(tmp_path: Path, statement: str) -> None:
    """The statement itself counts: a token of what it leads to would move with the machine."""
    module = load(tmp_path, f"def build():\n    {statement}\n    return op")
    assert token([], [module.build]) == ADDS_NOTHING[statement]

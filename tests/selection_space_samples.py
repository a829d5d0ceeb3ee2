"""Sources whose selection-space tokens are compared, and edits of them."""

HELPERS = """
SCALE = 2
TABLE = {"a": 1, "b": [2, 3]}
UNUSED = 5

def doubled(x):
    return x * SCALE

def looked_up(name):
    return TABLE[name]

def even(n):
    return n == 0 or odd(n - 1)

def odd(n):
    return n != 0 and even(n - 1)
"""

KERNEL = '''
"""A module."""

import math
import os
from functools import lru_cache, partial

import helpers_of_kernel as helpers
from helpers_of_kernel import doubled as twice, even

BLOCK = 128
HALF = BLOCK // 2
NAMES = ("x", "y")
LIMITS = [1, 2]
WORKERS = os.cpu_count()
_cache = {}
_calls = 0

class Options:
    """Options."""

    depth = 3

    def stages(self):
        return self.depth * HALF

OPTIONS = Options()

@lru_cache(maxsize=None)
def tile(n):
    """Return a tile."""
    return max(n, BLOCK)

def kernel(x, n: int = 4, *, fast=True):
    """Run."""
    # a comment
    if fast and x is not None:
        total = f"{x!r:>{n}} of {n}"
    for name in NAMES:
        x = x + twice(n) * helpers.SCALE - 1.5
    return [tile(i) for i in range(n) if i % 2], LIMITS, OPTIONS.stages(), even(n), WORKERS, math.pi

def launch(x):
    global _calls
    _calls += 1
    _cache[x] = kernel(x)
    return _cache[x]
'''

SAME = [
    ("# a comment", "# another comment"),
    ("    # a comment\n", ""),
    ('"""Run."""', '"""Walk."""'),
    ('    """Run."""\n', ""),
    ('"""A module."""', ""),
    ('    """Options."""\n', '    "Other options."\n    pass\n'),
    ("BLOCK = 128", "\n\n\n\nBLOCK   =   128  # so many"),
    ("BLOCK = 128", "BLOCK = 0x80"),
    ("BLOCK = 128", "BLOCK = 2**7"),
    ("BLOCK = 128", "BLOCK: int = 128"),
    ("BLOCK // 2", "(\n    BLOCK\n    // 2\n)"),
    ('("x", "y")', "('x', 'y',)"),
    ("math.pi\n", "math.pi\n    \n    # the end\n"),
    ("if fast and x is not None:", "if (fast\n            and x is not None):"),
    ("x = x + twice", "x = (x) + twice"),
    ("- 1.5", "- 15e-1"),
    ("_cache = {}\n", "_cache = {}\nunused = 7\n"),
    ("def kernel(", "def unused():\n    return 1\n\ndef kernel("),
    ("    for name in NAMES", "    ...\n    'a note'\n    pass\n    for name in NAMES"),
]

OTHER = [
    ("BLOCK = 128", "BLOCK = 129"),
    ("BLOCK = 128", "BLOCK = 128.0"),
    ("BLOCK = 128", "BLOCK = True"),
    ("BLOCK // 2", "BLOCK // 4"),
    ('("x", "y")', '("x", "z")'),
    ('("x", "y")', '("y", "x")'),
    ("[1, 2]", "[1, 3]"),
    ("LIMITS = [1, 2]", "LIMITS = [1, 2]\nLIMITS.append(3)"),
    ("LIMITS = [1, 2]", "LIMITS = [1, 2]\nLIMITS[0] = 3"),
    ("os.cpu_count()", "os.cpu_count() or 1"),
    ("depth = 3", "depth = 4"),
    ("self.depth * HALF", "self.depth + HALF"),
    ("Options()", "Options() or None"),
    ("max(n, BLOCK)", "min(n, BLOCK)"),
    ("maxsize=None", "maxsize=8"),
    ("@lru_cache(maxsize=None)\n", ""),
    ("n: int = 4", "n: int = 5"),
    ("n: int = 4", "n = 4"),
    ("*, fast=True", "fast=True"),
    ("fast=True", "fast=False"),
    ("fast=True", "fast=1"),
    ("fast and x", "fast or x"),
    ("is not None", "is None"),
    ("!r:>", "!s:>"),
    ("!r:>", "!r:<"),
    ("} of {", "} from {"),
    ("- 1.5", "- 1.25"),
    ("- 1.5", "+ 1.5"),
    ("twice(n)", "tile(n)"),
    ("doubled as twice", "looked_up as twice"),
    ("helpers.SCALE", "helpers.UNUSED"),
    ("i % 2]", "i % 3]"),
    ("even(n)", "even(-n)"),
    ("_calls += 1", "_calls += 2"),
    ("_calls = 0", "_calls = 1"),
    ("math.pi", "math.e"),
    ("for name in NAMES:", "for name in NAMES[:]:"),
    ("        x = x + twice", "        pass\n    x = x + twice"),
    ("def kernel", "async def kernel"),
    ("return [tile", "yield [tile"),
]

WRAPPED = """
class Wrapper:
    def __init__(self, fn):
        self.fn = fn

def jit(fn):
    return Wrapper(fn)

def autotune(configs, key):
    return lambda fn: Wrapper(fn)

def kernel_spec(**options):
    return lambda fn: fn

STAGES = [2, 3]

@autotune([{"BLOCK": 64}, {"BLOCK": n} for n in STAGES] if False else [1], key=["n"])
@jit
def tuned(x):
    return x + 1

@autotune(configs=STAGES, key=["n"])
@jit
def also_tuned(x):
    return x + 1

@kernel_spec(cases=[1, 2], candidates=STAGES)
def builder(case, seeded):
    return lambda: tuned(case)
""".replace('[{"BLOCK": 64}, {"BLOCK": n} for n in STAGES] if False else [1]', "[1, *STAGES]")

CLOSURES = """
import functools

def made(n, table):
    def inner(x):
        return x * n + len(table) + (0 if x == 0 else inner(x - 1))
    return inner

def decorated(fn):
    memory = {}
    @functools.wraps(fn)
    def call(x):
        memory[x] = fn(x)
        return memory[x]
    return call

@decorated
def remembered(x):
    return x + 1

one, two = made(1, [1]), made(2, [1])
plus, minus = (lambda x: x + 1), (lambda x: x - 1)
nested = lambda: lambda x: x * 3
"""

STATEMENTS = [
    "x = 1", "x += y", "return x", "x = [i for i in y if i]", "x = f'{y}a' 'b'", "print(x, *y, sep='')", "del x",
    "assert x, y", "x: int = 3", "with x as y: z()", "try: x()\nexcept E as e: y()\nfinally: z()", "while x: break",
    "for i in x: continue\nelse: y()",
    "if x: y()\nelif z: w()", "x = lambda a, /, b=1, *c, d, **e: a", "x[1:2, ::3] = y",
    "match x:\n    case [1, *_]: y()\n    case {'a': None}: z()\n    case P(q=1) | None: w()", "x = y if z else w",
    "def f(a): return a", "class C(B): x = 1", "raise x from y", "x = not y", "x = -1", "x = y @ z", "x = 1 < y <= 2",
    "x = b'a'", "x = ...", "x = 1j", "global g", "import a.b as c", "from a import b",
    "x = {**y, 'a': 1}", "x = {1, 2}",
]  # fmt: skip

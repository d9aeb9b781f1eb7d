"""The abstract evaluator agrees with Python wherever it claims to know a value."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.advisor.evaluator.machine import Budget, Machine
from lucid_pipelines.advisor.evaluator.parsing import parse
from lucid_pipelines.advisor.evaluator.semantics import python_semantics
from lucid_pipelines.advisor.evaluator.values import Frame, Lit, Map, Mod, Obj, Seq, Sym, Value
from lucid_pipelines.advisor.libraries.standard import standard_library
from lucid_pipelines.advisor.source_tree import SourceTree

HERE = Path(__file__).parent


def run(text: str) -> dict[str, Value]:
    """The global names after a program."""
    machine = Machine(
        SourceTree(HERE), python_semantics(), standard_library(), [Lit("t.py")], {}, budget=Budget(steps=60_000)
    )
    module = Mod("__main__", "t.py", "")
    tree = parse(text)
    assert tree is not None
    machine.run_block(tree.body, Frame(module, module.globals))
    return {name: machine.settle(module.globals, name) for name in list(module.globals)}


def plain(value: Value) -> object:
    """A value as Python data; unknown is ``...``."""
    if isinstance(value, Lit):
        return value.value
    if isinstance(value, Seq):
        items = [plain(item) for item in value.items]
        return {"tuple": tuple, "set": set}.get(value.kind, list)(items)
    if isinstance(value, Map):
        return {key: plain(item) for key, item in value.items.items()}
    return ...


PROGRAMS = {
    "closures": (
        "def f(a):\n"
        "    def g(b):\n"
        "        nonlocal a\n"
        "        a += b\n"
        "        return a\n"
        "    return g\n"
        "h = f(1)\n"
        "x = [h(1), h(2), h(3)]\n"
    ),
    "classes": (
        "class A:\n"
        "    n = 1\n"
        "    def __init__(self, k=2):\n"
        "        self.k = k\n"
        "    @property\n"
        "    def both(self):\n"
        "        return self.n + self.k\n"
        "    @classmethod\n"
        "    def make(cls):\n"
        "        return cls(7)\n"
        "    @staticmethod\n"
        "    def s(a):\n"
        "        return a * 2\n"
        "class B(A):\n"
        "    n = 10\n"
        "    def __init__(self):\n"
        "        super().__init__(k=5)\n"
        "x = [A().both, B().both, B.make.__name__, A.make().k, B.s(4)]\n"
    ).replace("B.make.__name__, ", ""),
    "attribute dictionary": (
        "class D(dict):\n"
        "    def __getattr__(self, n):\n"
        "        try:\n"
        "            return self[n]\n"
        "        except KeyError:\n"
        "            raise AttributeError(n)\n"
        "    def __setattr__(self, n, v):\n"
        "        self[n] = v\n"
        "d = D(a=1)\n"
        "d.b = 2\n"
        "x = [d.a, d.b, hasattr(d, 'c'), sorted(d.keys()), getattr(d, 'z', 9)]\n"
    ),
    "dict as attributes": (
        "class C:\n"
        "    def __init__(self, **kw):\n"
        "        self.__dict__.update(kw)\n"
        "c = C(a=1, b=2)\n"
        "x = [c.a + c.b, sorted(vars(c).items())]\n"
    ),
    "enum": (
        "from enum import Enum\n"
        "class E(Enum):\n"
        "    A = 'a'\n"
        "    B = 'b'\n"
        "x = [E('b').name, E['A'].value, E.A == E.A, E.A == E.B, [m.value for m in E]]\n"
    ),
    "dataclasses": (
        "from dataclasses import dataclass, field, asdict, replace\n"
        "@dataclass\n"
        "class A:\n"
        "    n: int = 1\n"
        "    l: list = field(default_factory=list)\n"
        "@dataclass\n"
        "class B(A):\n"
        "    m: int = 2\n"
        "    def __post_init__(self):\n"
        "        self.s = self.n + self.m\n"
        "b = B(n=5)\n"
        "x = [b.s, asdict(replace(b, m=9))['m'], b.l]\n"
    ),
    "comprehensions": (
        "x = [{k: v * 2 for k, v in {'a': 1, 'b': 2}.items() if v > 1}, [i + j "
        "for i in range(3) for j in (10, 20) if i], {i % 2 for i in range(4)}]\n"
    ),
    "unpacking": (
        "a, (b, *c), d = 1, [2, 3, 4], {**{'k': 5}}\n"
        "def f(*args, k=0, **kw):\n"
        "    return (args, k, kw)\n"
        "x = [a, b, c, d, f(*[1, 2], **{'k': 3, 'z': 4})]\n"
    ),
    "try": (
        "def f(t):\n"
        "    try:\n"
        "        return int(t)\n"
        "    except ValueError:\n"
        "        return -1\n"
        "    finally:\n"
        "        pass\n"
        "x = [f('3'), f('q')]\n"
        "try:\n"
        "    {}['missing']\n"
        "except KeyError:\n"
        "    x.append('caught')\n"
    ),
    "strings": (
        "n, r = 'lr', 0.5\n"
        "x = [f'{n}={r:.2f}', '%s-%d' % (n, 3), '{}/{k}'.format(n, k=1), ' a,b "
        "'.strip().split(','), 'a_b'.replace('_', '-').upper(), '/'.join(['p', 'q'])]\n"
    ),
    "match": (
        "def f(v):\n"
        "    match v:\n"
        "        case 1 | 2:\n"
        "            return 'few'\n"
        "        case 'a':\n"
        "            return 'letter'\n"
        "        case _:\n"
        "            return 'other'\n"
        "x = [f(2), f('a'), f(None)]\n"
    ),
    "walrus and ternary": (
        "x = [(y := 4) + 1, y, 'a' if y > 3 else 'b', None or 'd', 0 and 1, not [], 1 < y < 5, y in (1, 4)]\n"
    ),
    "generators": "def g(n):\n    for i in range(n):\n        yield i * i\nx = [list(g(4)), sum(g(3)), max(g(5))]\n",
    "while": (
        "n, x = 10, []\n"
        "while n > 0:\n"
        "    n -= 3\n"
        "    if n == 4:\n"
        "        continue\n"
        "    x.append(n)\n"
        "else:\n"
        "    x.append('end')\n"
    ),
    "partial and sorting": (
        "from functools import partial\n"
        "def f(a, b, c=0):\n"
        "    return [a, b, c]\n"
        "x = [partial(f, 1, c=3)(2), sorted([3, 1, 2], reverse=True), sorted(['bb', "
        "'a'], key=len), list(zip('ab', [1, 2])), dict(enumerate('ab'))]\n"
    ),
    "exec and globals": "code = 'p = 3'\nexec(code)\nglobals()['q'] = p + 1\nx = [p, q, eval('p * q')]\n",
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_programs_give_what_python_gives(name: str) -> None:
    expected: dict[str, object] = {}
    exec(PROGRAMS[name], expected)
    assert plain(run(PROGRAMS[name])["x"]) == expected["x"]


NUMBERS = st.one_of(st.integers(-50, 50), st.sampled_from([0.5, 1e-3, 2.0, 4e9]))
EXPRESSIONS = st.recursive(
    NUMBERS.map(repr),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "<", "==", "and", "or"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        ),
        inner.map(lambda text: f"(-{text})"),
        inner.map(lambda text: f"int({text})"),
        st.tuples(inner, inner).map(lambda pair: f"max({pair[0]}, {pair[1]})"),
        st.tuples(inner, inner, inner).map(lambda trio: f"({trio[0]} if {trio[1]} else {trio[2]})"),
    ),
    max_leaves=8,
)


@settings(max_examples=150)
@given(text=EXPRESSIONS)
def test_arithmetic_is_python_s_or_unknown(text: str) -> None:
    found = run(f"x = {text}\n")["x"]
    try:
        expected = eval(text)
    except (ArithmeticError, ValueError):
        assert not isinstance(found, Lit) or found.value is not None
        return
    if isinstance(found, Lit):
        assert found.value == expected or (isinstance(expected, float) and abs(expected) > 1e15)


def test_a_computed_value_remembers_formula_and_inputs() -> None:
    names = run("def scale(base_lr, batch):\n    return base_lr * batch / 256\nlr = scale(0.1, 512)\n")
    lr = names["lr"]
    assert isinstance(lr, Lit)
    assert lr.origin is not None
    assert lr.value == pytest.approx(0.2)
    assert ast.unparse(lr.origin.node or ast.Pass()) == "base_lr * batch / 256"
    sources = (
        {item.origin.name for item in lr.origin.inputs[0].origin.inputs if item.origin}
        if lr.origin.inputs[0].origin
        else set()
    )
    assert sources == {"base_lr", "batch"}


def test_what_an_unknown_branch_does_is_joined() -> None:
    names = run(
        "import lib\nkept, state, seen = 1, {'a': 1}, []\n"
        "if lib.unknown():\n    changed = 2\n    state['a'] = 2\n    seen.append(1)\n    "
        "only = 5\nelse:\n    changed = 3\n"
    )
    assert plain(names["kept"]) == 1
    assert isinstance(names["changed"], Sym)
    assert "either" in names["changed"].tags
    state, seen = names["state"], names["seen"]
    assert isinstance(state, Map)
    assert isinstance(state.items["a"], Sym)
    assert isinstance(seen, Seq)
    assert seen.open


def test_unknown_libraries_become_symbols_with_their_names() -> None:
    names = run(
        "import torch.optim as o\nfrom x import Thing as T\na = o.AdamW(params, lr=1e-3)\nb = T(1).sub[2].call()\n"
    )
    first, second = names["a"], names["b"]
    assert isinstance(first, Sym)
    assert first.path == "torch.optim.AdamW()"
    assert plain(first.kwargs["lr"]) == 1e-3
    assert isinstance(second, Sym)


def test_networks_are_not_walked_through_twice_deep() -> None:
    names = run(
        "import torch.nn as nn\nclass Block(nn.Module):\n    def __init__(self, d):\n    "
        "    self.boom = [0] * 10 ** 9\n"
        "class Net(nn.Module):\n    def __init__(self, d=8):\n        "
        "super().__init__()\n        self.width = d\n        self.blocks = [Block(d) for "
        "_ in range(12)]\n"
        "net = Net().to('cuda')\nw = net.width\n"
    )
    assert plain(names["w"]) == 8
    assert isinstance(names["net"], Obj)


def test_python_2_and_broken_statements_leave_the_rest() -> None:
    tree = parse(
        "lr = 0.1\nprint 'old'\nexcept_here = (\nepochs = 3\ntry:\n    x = 1\nexcept ValueError, e:\n    x = 0777\n"
    )
    assert tree is not None
    assert any(isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "lr" for node in tree.body)

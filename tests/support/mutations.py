"""Small changes to Python code, which `mutants.py` applies to the regions of solutions.

Each is one edit of the text, found with ast: another constant, another comparison, another size of
the same kind, a dropped argument or statement. Nothing here knows whether a change matters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Names of one kind: one of them is easily written where another is meant.
FAMILIES = (
    ("bm", "bn", "bk"),
    ("M", "N", "K", "G"),
    ("m", "n"),
    ("T", "S", "H", "B"),
    ("tm", "tn", "tk"),
    ("td", "tf", "tm"),
    ("bq", "bkv"),
    ("b", "n", "i", "j", "k"),
    ("j", "visit", "k"),
    ("i", "step", "j"),
    ("first_query", "last_query", "first_key", "last_key"),
    ("start", "end"),
    ("starts", "ends"),
    ("m_prev", "m_next"),
    ("dk", "dv", "dq"),
    ("dk_acc", "dv_acc"),
    ("q", "k", "v", "do"),
    ("q_spec", "kv_spec", "x_spec", "o_spec"),
    ("lse", "delta"),
    ("tiles_per_group", "tile_visits"),
)
FUNCTIONS = {
    "maximum": "minimum",
    "minimum": "maximum",
    "max": "min",
    "sum": "max",
    "exp": "exp2",
    "tanh": "sin",
    "zeros_like": "ones_like",
    "zeros": "ones",
    "cumsum": "cumprod",
    "program_id": "num_programs",
    "float32": "bfloat16",
    "softmax": "log_softmax",
    "argsort": "sort",
}
COMPARED: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: ">",
    ast.LtE: ">=",
    ast.Gt: "<",
    ast.GtE: "<=",
}
#: Comparisons with the same result except on one side of the edge, or on the edge itself.
EDGES: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Eq: ("<=", ">="),
    ast.NotEq: ("<", ">"),
    ast.Lt: ("<=",),
    ast.LtE: ("<",),
    ast.Gt: (">=",),
    ast.GtE: (">",),
}
SIGNS: dict[type[ast.operator], tuple[str, ...]] = {
    ast.Add: ("-",),
    ast.Sub: ("+",),
    ast.Mult: ("+", "/"),
    ast.Div: ("*",),
    ast.FloorDiv: ("%", "*"),
    ast.Mod: ("//",),
    ast.BitAnd: ("|",),
    ast.BitOr: ("&",),
}
#: Arguments without which a kernel is as right, and as fast on one core.
NEEDLESS = ("name", "compiler_params", "dimension_semantics")
COMMUTATIVE = ("maximum", "minimum", "add", "logical_and", "logical_or")
MASKS = ("MASK_VALUE",)
Placed = ast.expr | ast.stmt | ast.keyword


@dataclass(frozen=True, slots=True, order=True)
class Mutation:
    """Of `begin` to `end`, offsets in a text, becomes `new`. `kind` names the sort of change."""

    begin: int
    end: int
    kind: str
    new: str

    def of(self, text: str) -> str:
        """The changed text."""
        return text[: self.begin] + self.new + text[self.end :]


def mutations(text: str, inside: Sequence[tuple[int, int]]) -> list[Mutation]:
    """All changes whose place is within some of the line ranges, by place; each text once."""
    finder = _Finder(text, inside)
    found, seen = [], {text}
    for mutation in sorted(finder.found(ast.parse(text))):
        changed = mutation.of(text)
        if changed not in seen and _parses(changed):
            seen.add(changed)
            found.append(mutation)
    return found


def _parses(text: str) -> bool:
    try:
        compile(text, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


class _Finder:
    """Walks a tree and finds changes."""

    def __init__(self, text: str, inside: Sequence[tuple[int, int]]) -> None:
        self._text, self._inside = text, inside
        self._known: set[str] = set()
        self._starts = [0]
        for line in text.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def found(self, tree: ast.Module) -> Iterator[Mutation]:
        """Names are swapped for those that occur in the same function of module level."""
        for function in tree.body:
            self._known = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} | {
                n.arg for n in ast.walk(function) if isinstance(n, ast.arg)
            }
            yield from self._within(function)

    def _within(self, tree: ast.AST) -> Iterator[Mutation]:
        docstrings = {id(s) for node in ast.walk(tree) for s in _docstring(node)}
        for node in ast.walk(tree):
            line = getattr(node, "lineno", 0)
            if any(a < line < b for a, b in self._inside) and id(node) not in docstrings:
                yield from self._of(node)

    def _at(self, line: int, column: int) -> int:
        start = self._starts[line - 1]
        text = self._text[start : self._starts[line]]
        return start + len(text.encode()[:column].decode())

    def _span(self, node: Placed) -> tuple[int, int]:
        begin = self._at(node.lineno, node.col_offset)
        end = self._at(node.end_lineno or 0, node.end_col_offset or 0)
        return begin, end

    def _source(self, node: Placed) -> str:
        begin, end = self._span(node)
        return self._text[begin:end]

    def _instead(self, node: Placed, kind: str, new: str) -> Mutation:
        return Mutation(*self._span(node), kind, new)

    def _between(self, left: Placed, right: Placed, old: str, new: str, kind: str) -> Mutation:
        """The operator between two operands; brackets that close or open there stay."""
        begin, end = self._span(left)[1], self._span(right)[0]
        between = self._text[begin:end]
        return Mutation(begin, end, kind, between.replace(old, new, 1))

    def _of(self, node: ast.AST) -> Iterator[Mutation]:
        if isinstance(node, ast.stmt):
            yield from self._statement(node)
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method:
            yield from method(node)

    def _statement(self, node: ast.stmt) -> Iterator[Mutation]:
        if isinstance(node, ast.AugAssign):
            value = self._source(node.value)
            yield self._instead(node, "+= to =", f"{self._source(node.target)} = {value}")
        decorators = getattr(node, "decorator_list", [])
        if decorators:
            begin = self._at(decorators[0].lineno, decorators[0].col_offset - 1)
            yield Mutation(begin, self._span(node)[1], "statement removed", "pass")
            yield Mutation(
                begin, self._span(decorators[0])[1], "condition dropped", "@pl.when(True)"
            )
        elif isinstance(node, ast.AugAssign | ast.Assign | ast.Expr):
            yield self._instead(node, "statement removed", "pass")

    def _constant(self, node: ast.Constant) -> Iterator[Mutation]:
        if isinstance(node.value, bool):
            yield self._instead(node, "constant", str(not node.value))
        elif isinstance(node.value, int):
            yield self._instead(node, "constant", str(node.value + 1))
            yield self._instead(node, "constant", str(node.value - 1))
        elif isinstance(node.value, float):
            yield self._instead(node, "constant", str(node.value * 1.5 + 0.1))
        elif node.value == "arbitrary":
            yield self._instead(node, "constant", '"parallel"')
        elif node.value is None:
            yield self._instead(node, "constant", "1")

    def _compare(self, node: ast.Compare) -> Iterator[Mutation]:
        old, left, right = node.ops[0], node.left, node.comparators[0]
        if type(old) in COMPARED:
            yield self._between(left, right, _symbol(old), COMPARED[type(old)], "comparison")
        for new in EDGES.get(type(old), ()):
            if not self._is_at_an_end(right, old, new):
                yield self._between(left, right, _symbol(old), new, "edge")

    def _is_at_an_end(self, right: ast.expr, old: ast.cmpop, new: str) -> bool:
        """Whether the change matters only below 0, or past the last step."""
        equal, source = isinstance(old, ast.Eq), self._source(right)
        if source == "0":
            return new == ("<=" if equal else ">")
        return "num_programs(" in source and new == (">=" if equal else "<")

    def _binop(self, node: ast.BinOp) -> Iterator[Mutation]:
        old, left, right = _symbol(node.op), node.left, node.right
        for new in SIGNS.get(type(node.op), ()):
            yield self._between(left, right, old, new, "operator")
        one, other = f"({self._source(left)})", f"({self._source(right)})"
        if isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod):
            yield self._instead(node, "operands swapped", f"{other} {old} {one}")
        yield self._instead(node, "operand dropped", one)
        yield self._instead(node, "operand dropped", other)

    def _unaryop(self, node: ast.UnaryOp) -> Iterator[Mutation]:
        yield self._instead(node, "sign dropped", self._source(node.operand))

    def _name(self, node: ast.Name) -> Iterator[Mutation]:
        if not isinstance(node.ctx, ast.Load):
            return
        for family in FAMILIES:
            if node.id in family:
                for other in family:
                    if other != node.id and other in self._known:
                        yield self._instead(node, "name swapped", other)
        if node.id in MASKS:
            for value in ("-1e9", "0.0"):
                yield self._instead(node, "mask value", value)
        if node.id.endswith("_ref"):
            for other in sorted(self._known):
                if other.endswith("_ref") and other != node.id:
                    yield self._instead(node, "Ref swapped", other)

    def _attribute(self, node: ast.Attribute) -> Iterator[Mutation]:
        if node.attr in FUNCTIONS:
            value = self._source(node.value)
            yield self._instead(node, "function", f"{value}.{FUNCTIONS[node.attr]}")
        if node.attr == "T":
            yield self._instead(node, "transpose dropped", self._source(node.value))

    def _tuple(self, node: ast.Tuple) -> Iterator[Mutation]:
        texts = [self._source(element) for element in node.elts]
        for place in range(len(texts) - 1):
            swapped = [*texts]
            swapped[place : place + 2] = texts[place + 1], texts[place]
            inside = ", ".join(swapped)
            bracket = self._source(node).startswith("(")
            yield self._instead(node, "elements swapped", f"({inside})" if bracket else inside)

    def _call(self, node: ast.Call) -> Iterator[Mutation]:
        arguments = [self._source(argument) for argument in node.args]
        keywords = [self._source(keyword) for keyword in node.keywords]
        function = self._source(node.func)

        def call(arguments: Sequence[str], keywords: Sequence[str]) -> str:
            return f"{function}({', '.join([*arguments, *keywords])})"

        for place, keyword in enumerate(node.keywords):
            if keyword.arg not in NEEDLESS:
                fewer = [*keywords[:place], *keywords[place + 1 :]]
                yield self._instead(node, "keyword dropped", call(arguments, fewer))
        for place in range(len(arguments) - 1):
            if function.rpartition(".")[2] in COMMUTATIVE:
                break
            swapped = [*arguments]
            swapped[place : place + 2] = arguments[place + 1], arguments[place]
            yield self._instead(node, "arguments swapped", call(swapped, keywords))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
            yield self._instead(node, "cast dropped", self._source(node.func.value))
        if len(arguments) == 1 and function.rpartition(".")[2] in ("logical_not", "widened", "exp"):
            yield self._instead(node, "call dropped", arguments[0])


def _docstring(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
        first = node.body[0]
        return [first, *ast.walk(first)]
    return []


def _symbol(operator: ast.AST) -> str:
    return {
        ast.Eq: "==",
        ast.NotEq: "!=",
        ast.Lt: "<",
        ast.LtE: "<=",
        ast.Gt: ">",
        ast.GtE: ">=",
        ast.Add: "+",
        ast.Sub: "-",
        ast.Mult: "*",
        ast.Div: "/",
        ast.FloorDiv: "//",
        ast.Mod: "%",
        ast.BitAnd: "&",
        ast.BitOr: "|",
        ast.Pow: "**",
        ast.MatMult: "@",
    }.get(type(operator), "?")

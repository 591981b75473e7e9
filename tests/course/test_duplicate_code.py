"""What several solutions define under one name is the same, letter for letter, or differs for a
reason that is written here. A kata imports nothing of another's, so helpers are copied."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass

import pytest

from grader.exercise.catalog import SOLUTIONS, Kata, katas
from tests.support.repositories import ROOT

#: What a kata defines in its own way, and why.
ON_PURPOSE = {
    ("attend", "sharded_vmap"): "launches a kernel; elsewhere it is a step within one",
    (
        "attend",
        "ragged_sequence",
    ): "takes the values, not their Ref: those past the edge are zeroed",
    ("dense_mask", "splash_backward_dkv"): "its tables are those of the transposed mask",
    ("group_metadata", "group_metadata"): "visits no empty groups, which only later katas need",
    (
        "product",
        "kernel_in_shard_map",
    ): "launches a kernel; elsewhere it is an einsum, for XLA",
    ("queries_keys_values", "block_sparse_attention"): "its heads of queries share no keys",
    ("random_blocks", "block_sparse_attention"): "has no row in which all blocks have work",
    ("random_blocks", "splash_backward_dkv"): "transposed, with a row of keys that no query sees",
    ("rms_norm", "rms_norm"): "launches a kernel; elsewhere it is plain jax.numpy, for XLA",
    ("splash_tables", "splash_tables"): "makes tables of a given size, within jit, from no mask",
    ("store", "splash_attention"): "stores the log-sum-exp as well",
}


@dataclass(frozen=True, slots=True)
class Definition:
    """One function, class or constant at the top of a solution."""

    kata: Kata
    name: str
    node: ast.stmt

    @property
    def own(self) -> bool:
        """Whether the kata is about it, so that it has annotations and a region."""
        return self.name == self.kata.name or self.name.startswith(f"{self.kata.name}_")

    def text(self) -> str:
        """What it does and says; comments do not count."""
        return ast.unparse(self.node)

    def code(self) -> str:
        """What it does: without docstrings, annotations and defaults."""
        return ast.unparse(_Bare().visit(ast.parse(self.text())))


class _Bare(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.returns, node.args.defaults = None, []
        node.args.kw_defaults = [None] * len(node.args.kwonlyargs)
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return node


def definitions(kata: Kata) -> list[Definition]:
    """Everything that a solution defines at its top level."""
    found = []
    for node in ast.parse(kata.solution.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.append(Definition(kata, node.name, node))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.append(Definition(kata, node.targets[0].id, node))
    return found


def shared() -> dict[str, list[Definition]]:
    """By name, what more than one solution defines."""
    by_name = defaultdict(list)
    for kata in katas(ROOT, SOLUTIONS):
        for definition in definitions(kata):
            by_name[definition.name].append(definition)
    return {name: copies for name, copies in by_name.items() if len(copies) > 1}


SHARED = shared()


@pytest.mark.parametrize("name", SHARED)
def test_copies_agree(name: str) -> None:
    regular = [c for c in SHARED[name] if (name, c.kata.name) not in ON_PURPOSE]
    copies = [copy for copy in regular if not copy.own]
    for copy in copies[1:]:
        assert copy.text() == copies[0].text(), f"{copy.kata.id} and {copies[0].kata.id}"
    for original in regular:
        if original.own and copies:
            assert copies[0].code() == original.code(), f"{copies[0].kata.id}, {original.kata.id}"


@pytest.mark.parametrize(("name", "kata"), ON_PURPOSE)
def test_what_differs_on_purpose_differs(name: str, kata: str) -> None:
    """An entry that is no longer needed would hide the next difference."""
    (one,) = [copy for copy in SHARED[name] if copy.kata.name == kata]
    others = [copy for copy in SHARED[name] if copy is not one and not copy.own]
    assert others
    assert all(copy.code() != one.code() for copy in others)


def test_copies_are_looked_for_where_they_are() -> None:
    assert len(SHARED["widened"]) >= 9
    assert len(SHARED["group_metadata"]) >= 6

"""Each public module and class says what it is for."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness.repository import module_name, sources

WRITTEN = [path for path in sources() if path.read_text().strip()]


@pytest.mark.parametrize("path", WRITTEN, ids=module_name)
def test_module_and_public_classes_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "the module has no docstring"
    bare = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not mirrors_c(node)
    ]
    assert not bare


def mirrors_c(node: ast.ClassDef) -> bool:
    """Whether the class is a ctypes struct: its meaning is stated where the C struct is."""
    return any(ast.unparse(base).endswith("Structure") for base in node.bases)

"""Marks name clauses of docs/features.md, and `make features` says which clauses no test proves."""

import ast
import importlib.util
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "features.md").read_text()


def _script() -> Any:
    """Load scripts/features.py, which is not part of a package."""
    spec = importlib.util.spec_from_file_location("features", ROOT / "scripts" / "features.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def marks() -> list[tuple[str, str]]:
    """Return every mark of the tests, with its file. Reading the files takes a second; collecting the tests takes ten."""
    found: list[tuple[str, str]] = []
    for file in sorted((ROOT / "tests").rglob("*.py")):
        text = file.read_text()
        if "mark.feature(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "feature":
                found += [(str(file.relative_to(ROOT)), ast.literal_eval(name)) for name in node.args]
    return found


def test_every_mark_names_a_clause_or_an_item_that_exists() -> None:
    known = {line.name for line in _script().lines(PAGE) if not isinstance(line, str)}
    assert [(file, name) for file, name in marks() if name not in known] == []


def test_every_clause_belongs_to_the_item_above_it_and_is_there_once() -> None:
    names = re.findall(r"^(?:  )?- ([A-Z]\d+(?:\.[a-z-]+)?) ", PAGE, re.MULTILINE)
    assert len(names) == len(set(names))
    item = ""
    for name in names:
        if "." in name:
            assert name.partition(".")[0] == item
        else:
            item = name


def test_a_clause_without_a_test_and_a_mark_without_a_clause_are_reported() -> None:
    page = "## Things\n\n- S1 One\n  - S1.a Has a test\n  - S1.b Has none\n- S2 Two\n  - S2.c Has two\n"
    text, status = _script().report(page, {"S1.a": {"x"}, "S2.c": {"x", "y"}, "S2": {"z"}})
    assert status == 0
    assert "S1.a                    1  Has a test" in text
    assert "S2.c                    2  Has two" in text
    assert text.index("2 of 3 clauses have tests. Without one:") < text.rindex("S1.b")
    assert "1 tests name an item and none of its clauses:\n  z" in text
    text, status = _script().report(page, {"S1.z": {"x"}})
    assert status == 1
    assert "tests name what docs/features.md does not have: S1.z" in text

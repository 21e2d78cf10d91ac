"""Names that a reader can rely on: one class for each class name, and a unit in the name of each numeric constant."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "terracrew"
UNIT = re.compile(
    r"_(BYTES|SECONDS|MINUTES|HOURS|DAYS|CHARACTERS|COLUMNS|ROWS|ENTRIES|LEVELS?|BATCHES|RATIO|RATE|PERCENT|PORT|CODE|VERSION|KEY"
    r"|FLAG|COUNT|BITS|ITEMS|TRIES|CONNECTIONS|STREAMS|RETRIES)\Z|\A_?(MAX|MIN)_"
)
WITHOUT_UNIT = {
    *("_SET_DUMPABLE", "_SET_CHILD_SUBREAPER", "_SET_NO_NEW_PRIVS", "_DROP_FROM_BOUNDING_SET", "_RULE_PATH_BENEATH"),
    *("_ABI_WITH_SIGNALS", "TRACE", "_NO_EVENT"),
    *("DELIVERED", "UNDELIVERED", "INCOMPATIBLE", "CRASHED", "IN_USE"),
}
"""Numbers that the kernel or the logging library defines, the number of no event, and exit codes in a module of that name."""


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        if "testing" not in path.parts:
            yield path.relative_to(SOURCE), ast.parse(path.read_text())


def test_a_class_name_belongs_to_one_class() -> None:
    """`Progress`, `Rule` and `Connection` each named three classes."""
    names = Counter(node.name for _, tree in modules() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


def test_a_numeric_constant_says_its_unit() -> None:
    """`PATIENCE` existed seven times, with three values."""
    bare = [f"{path}: {name}" for path, tree in modules() for name in constants(tree) if not UNIT.search(name)]
    assert bare == []


def constants(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and is_number(node.value):
            name = node.targets[0].id
            if name.isupper() and name not in WITHOUT_UNIT:
                yield name


def is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        return is_number(value.left) and is_number(value.right)
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float)

"""Names that a reader can rely on: one class for each class name, and a unit in the name of each numeric constant."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "terracrew"
UNIT = re.compile(
    r"_(BYTES|SECONDS|MINUTES|HOURS|DAYS|CHARACTERS|COLUMNS|ROWS|ENTRIES|LEVELS?|BATCHES|RATIO|RATE|PERCENT|PORT|CODE|VERSION|KEY"
    r"|FLAG|COUNT|BITS|ITEMS|TRIES|CONNECTIONS|STREAMS|RETRIES|MEGABYTES|PROCESSES|TASKS|SCORE)\Z|\A_?(MAX|MIN)_"
)
WITHOUT_UNIT = {
    *(
        "_SET_PARENT_DEATH_SIGNAL",
        "_SET_DUMPABLE",
        "_SET_CHILD_SUBREAPER",
        "_SET_NO_NEW_PRIVS",
        "_DROP_FROM_BOUNDING_SET",
        "_RULE_PATH_BENEATH",
    ),
    *("_AMBIENT", "_CLEAR_ALL", "_SET_MODE_FILTER", "_GET_ACTION_AVAILABLE", "NEWEST_NUMBER", "PASSED_DESCRIPTOR"),
    *("_OPEN_TREE", "_MOVE_MOUNT", "_CURRENT_DIRECTORY"),
    *("_CREATE_RULESET", "_ADD_RULE", "_RESTRICT_SELF", "_SCOPE_ABSTRACT_UNIX_SOCKET", "_SCOPE_SIGNAL"),
    *("_ABI_WITH_NETWORK", "_ABI_WITH_SCOPES", "_CLONE3", "_CLONE_INTO_CGROUP"),
    *("_ABI_WITH_SIGNALS", "TRACE", "_NO_EVENT", "IN_MODIFY", "IN_CREATE"),
    *("DELIVERED", "UNDELIVERED", "INCOMPATIBLE", "CRASHED", "IN_USE", "NOTHING_LEFT", "NOT_DURABLE"),
    *("SALVAGED", "ABANDONED", "CHOSEN", "NOT_BEGUN", "TICKET_REFUSED"),
    *("_SET_KEEP_CAPABILITIES", "EXECUTOR_UID", "ENGINE_UID", "_PRIVATE_MODE", "_READABLE_MODE", "_SHARED_MODE"),
    *("_TMP_MODE", "_WRITABLE_MODE"),
}
"""Numbers that the kernel or the logging library defines, ids of users, modes of files, the number of no event, and exit codes in a
module of that name."""

REFUSED_WORD = re.compile(
    r"(?:\b|_)(hear|hears|heard|unheard|told|patience|outlast|strangers?|whoever)(?:_|\b)", re.IGNORECASE
)
CLASS = re.compile(r"^ *class (\w+)[(:]", re.MULTILINE)
COLUMN_NAMES = {"heard_at", "executor_heard_at"}
"""The database and the API have these names; see the glossary."""


def modules() -> Iterator[tuple[Path, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        if "testing" not in path.parts:
            yield path.relative_to(SOURCE), path.read_text()


def test_a_class_name_belongs_to_one_class() -> None:
    """`Progress`, `Rule` and `Connection` each named three classes."""
    names = Counter(name for _, text in modules() for name in CLASS.findall(text))
    assert len(names) > 500
    assert [name for name, count in names.items() if count > 1] == []


def test_a_numeric_constant_says_its_unit() -> None:
    """`PATIENCE` existed seven times, with three values."""
    bare = [
        f"{path}: {name}" for path, text in modules() for name in constants(ast.parse(text)) if not UNIT.search(name)
    ]
    assert bare == []


def test_every_constant_without_a_unit_is_there() -> None:
    """Three of them were left behind by optimisations that are gone."""
    written = {name for _, text in modules() for name in re.findall(r"\b[A-Z_][A-Z_0-9]*\b", text)}
    assert WITHOUT_UNIT - written == set()


@pytest.mark.parametrize(
    "text",
    ["PATIENCE = 5", "A_SECONDS, PATIENCE = 1, 2", "PATIENCE: float = 2", "PATIENCE = -1", "PATIENCE = A_SECONDS * 2"],
)
def test_a_constant_without_a_unit_is_found_however_it_is_written(text: str) -> None:
    assert [name for name in constants(ast.parse(text)) if not UNIT.search(name)] == ["PATIENCE"]


def constants(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=True))
        for name, value in pairs:
            if isinstance(name, ast.Name) and name.id.isupper() and name.id not in WITHOUT_UNIT and is_number(value):
                yield name.id


def is_number(value: ast.expr) -> bool:
    """Return whether this is a number, or is computed from numbers and other constants."""
    if isinstance(value, ast.UnaryOp):
        return is_number(value.operand)
    if isinstance(value, ast.BinOp):
        sides = (value.left, value.right)
        return any(map(is_number, sides)) and all(is_number(side) or is_constant(side) for side in sides)
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float)


def is_constant(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id.isupper()


def test_names_use_the_ordinary_words() -> None:
    """A client was "heard" in some names and "in contact" in others; `told` named outputs, refusals and lines of text."""
    found = [f"{path}: {name}" for path, text in modules() for name in refused(text)]
    assert found == []


@pytest.mark.parametrize("text", ["told = 1", "def is_heard(): ...", "run(x.on_heard)", "def run(patience): ..."])
def test_a_refused_word_is_found_wherever_it_stands(text: str) -> None:
    assert len(list(refused(text))) == 1


def refused(text: str) -> Iterator[str]:
    if not REFUSED_WORD.search(text):
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case _:
                continue
        if name not in COLUMN_NAMES and REFUSED_WORD.search(name):
            yield name

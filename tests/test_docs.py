"""The pages beside the code: what they link to and name is there, and what is generated is current."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests import command_lines

ROOT = Path(__file__).parents[1]
_SUPERSEDED = "\nStatus: superseded"
PAGES = sorted(
    page for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if _SUPERSEDED not in page.read_text()[:400]
)
"""A decision that is superseded describes code that is gone, so it is not compared with the code."""
SOURCES = ROOT / "src" / "terracrew"
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
_FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|json|sql|sh))\b")
_MODULE = re.compile(r"`((?:\w+/)+\w+)(?:\.(\w+))?/?`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_or_names_is_there(page: Path) -> None:
    text = page.read_text()
    links = [link for link in _LINK.findall(text) if not (page.parent / link).exists()]
    assert links == []
    places = (ROOT, SOURCES, SOURCES / "server", page.parent)
    assert [name for name in _FILE.findall(text) if not any((place / name).exists() for place in places)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_packages_modules_and_what_is_in_them_exist_under_the_names_that_a_page_gives(page: Path) -> None:
    """A decision record named the package `server/api/docs` after it had moved."""
    places = (ROOT, SOURCES, SOURCES / "server", SOURCES / "executor", SOURCES / "runner")
    wrong: list[str] = []
    for path, name in _MODULE.findall(page.read_text()):
        homes = [place for place in places if (place / path.partition("/")[0] / "__init__.py").exists()]
        files = [place / f"{path}.py" for place in homes if (place / f"{path}.py").exists()]
        is_there = any(re.search(rf"\b{name}\b", file.read_text()) for file in files) if name else files
        if homes and not is_there and not any((place / f"{path}.{name}".rstrip(".")).exists() for place in homes):
            wrong.append(f"{path}.{name}".rstrip("."))
    assert wrong == []


NAMES_OF_CODE = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "concurrency.md"]
"""Pages that are about the code, so that names in them which are in no path must exist, too."""
OF_OTHERS = {"cgroup.events"}
"""A file of the kernel has a name like that of a member of a module."""


@cache
def code() -> dict[str, str]:
    """Return the texts of all modules of src and tests by their paths; other files and folders have no text."""
    found = [file for folder in (SOURCES, ROOT / "tests") for file in folder.rglob("*")]
    files = [file for file in found if "__pycache__" not in file.parts]
    return {f"/{file.relative_to(ROOT)}": file.read_text() if file.suffix == ".py" else "" for file in files}


def wrong_names(page: str) -> list[str]:
    """Return the names in backticks that nothing in src, tests and the root has: `x.py`, `package/module`, `Class.method`, `word`."""
    return [name for name in re.findall(r"`([^`\s]+)`", page) if not is_there(name.removesuffix("()"))]


def is_there(name: str) -> bool:
    """Return whether a name exists, or has none of the forms that names of code have."""
    if (ROOT / name).exists() or name in OF_OTHERS or name.startswith("build/"):
        return True
    if found := re.fullmatch(r"([A-Z]\w+)\.(\w+)", name):
        return any(found[2] in members(text, found[1]) for text in code().values() if f"class {found[1]}" in text)
    if re.fullmatch(r"\w+", name):
        whole = re.compile(rf"\b{name}\b")
        texts = [text for path, text in code().items() if not path.endswith("/test_docs.py")]
        return any(name in text and whole.search(text) for text in texts)
    if found := re.fullmatch(r"((?:\w+/)*\w+)\.(?!py\Z)(\w+)", name):
        texts = [text for path, text in code().items() if path.endswith(f"/{found[1]}.py")]
        defined = re.compile(rf"^\s*(?:(?:async )?def |class )?{found[2]}\b\s*[:=(\[]", re.MULTILINE)
        return any(map(defined.search, texts)) if texts else "/" not in name
    if re.fullmatch(r"(?:[\w<>{},-]+/)+(?:[\w<>{},-]+(?:\.py)?)?|\w+\.py", name):
        pattern = re.sub(r"<\w+>|{[\w,]+}", "[^/]*", name.removesuffix("/"))
        path = re.compile(rf"/{pattern}(?:\.py)?\Z")
        return any(map(path.search, code()))
    return True


def members(text: str, name: str) -> set[str]:
    """Return every name in the classes of this name that a module defines."""
    found = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.ClassDef) and each.name == name]
    nodes = [node for each in found for node in ast.walk(each)]
    methods = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    fields = {node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    return methods | fields | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize("page", NAMES_OF_CODE, ids=lambda page: page.name)
def test_names_on_a_page_about_the_code_exist(page: Path) -> None:
    """`Connection.run`, `Output.close`, `object_problems.py` and `retiring` stayed on pages after they had other names."""
    assert wrong_names(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_classes_with_members_that_a_page_names_exist(page: Path) -> None:
    names = re.findall(r"`([A-Z][a-z]\w*\.(?!ya?ml|json)\w+(?:\(\))?)`", page.read_text())
    assert [name for name in names if not is_there(name.removesuffix("()"))] == []


@pytest.mark.parametrize(
    "name",
    [
        *("object_problems.py", "dashboard/<noun>/gone.py", "jobs/attempts/claims_of_offers", "gone_packages/"),
        *(
            "Connection.run",
            "EngineOutput.finish()",
            "ZygoteServer",
            "_conversed",
            "retiring",
            "decide.lend",
            "jobs/decide.lend",
        ),
    ],
)
def test_a_name_that_is_nowhere_is_found(name: str) -> None:
    assert wrong_names(f"It is `{name}`, and nothing else.") == [name]


@pytest.mark.parametrize(
    "name",
    [
        *("words.py", "dashboard/<noun>/", "jobs/attempts/claims", "state/", "tests/explore", "ARCHITECTURE.md"),
        *(
            "HubConnection.run",
            "EngineOutput.close()",
            "ZygoteClient",
            "_converse",
            "decide.claim",
            "jobs/decide.claim",
        ),
        *("runner.self_update", "/readyz", "admin.token", "make check"),
    ],
)
def test_a_name_that_exists_or_is_none_of_the_code_is_not_found(name: str) -> None:
    assert wrong_names(f"It is `{name}`, and nothing else.") == []


def test_every_test_file_that_a_page_or_the_code_names_exists() -> None:
    """ARCHITECTURE.md named `test_losses.py` and the encryption of saved plans `test_seal.py`, after both had moved."""
    paths = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    names = [
        (str(file.relative_to(ROOT)), name)
        for file in (*PAGES, *SOURCES.rglob("*.py"))
        if file.name != "CHANGELOG.md"
        for name in re.findall(r"[\w/]*\btest_\w+\.py\b", file.read_text())
    ]
    assert [(file, name) for file, name in names if not any(f"/{path}".endswith(f"/{name}") for path in paths)] == []


def test_the_diagram_of_statuses_is_current() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "statuses.py")]
    page = subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout
    assert page == (ROOT / "docs" / "job-statuses.md").read_text(), "scripts/statuses.py > docs/job-statuses.md"


@pytest.mark.feature("T4.reference")
@pytest.mark.parametrize("process", ["server", "runner"])
def test_the_page_of_settings_is_current(process: str) -> None:
    script = [sys.executable, str(ROOT / "scripts" / f"{process}_settings.py")]
    page = subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout
    assert page == (ROOT / "docs" / f"{process}-settings.md").read_text(), "make settings"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_names_exists_with_its_options(page: Path) -> None:
    text = page.read_text()
    found = [(words, command_lines.fault(words, is_whole=True)) for words in command_lines.typed(text)]
    found += [(words, command_lines.fault(words, is_whole=False)) for words in command_lines.mentioned(text)]
    assert [(" ".join(words), fault) for words, fault in found if fault] == []


def test_the_commands_of_pages_are_found_in_blocks_and_pipelines_and_their_mistakes_are_seen() -> None:
    """`- terracrew …` in the example of a pipeline, and `job=$(terracrew …)`, were not looked at."""
    text = """
    - terracrew job logs -f "$job" || [ $? = 14 ]
    job=$(terracrew job run a/b --plan --from x)   # it's a plan
    terracrew service-account trust add acme/deploy \\
        --issuer https://gitlab.example.com | sed s/a/b/

```yaml
script:
  - /opt/terracrew/bin/terracrew server --config /etc/server.toml admin-link
```
"""
    assert [" ".join(words) for words in command_lines.typed(text)] == [
        "server --config /etc/server.toml admin-link",
        "job logs -f $job",
        "job run a/b --plan --from x",
        "service-account trust add acme/deploy --issuer https://gitlab.example.com",
    ]
    wrong = ["job run --plam a/b", "job run", "job run a/b c", "module create a --from", "jobs list", "job run a --var"]
    assert [line for line in wrong if not command_lines.fault(line.split(), is_whole=True)] == []
    assert command_lines.fault(["job", "approve"], is_whole=False) == ""


def sections(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and GitLab make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_to_a_section_leads_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())
    assert [
        (name, anchor) for name, anchor in links if anchor not in sections(page.parent / name if name else page)
    ] == []


def test_the_index_leads_to_every_page() -> None:
    index, provider = ROOT / "docs" / "README.md", ROOT / "docs" / "provider.md"
    linked = {(each.parent / link).resolve() for each in (index, provider) for link in _LINK.findall(each.read_text())}
    pages = {page for page in PAGES if page.parent.name != "decisions"} - {index}
    assert pages - linked == set()


def test_the_readme_leads_to_every_checklist() -> None:
    """It left out the checklist of fields."""
    linked = {(ROOT / link).resolve() for link in _LINK.findall((ROOT / "README.md").read_text())}
    assert {page for page in PAGES if page.parent.name == "checklists"} - linked == set()


@pytest.mark.parametrize(
    "file",
    [
        "docs/decisions/0085-what-0-1-0-promises.md",
        "docs/protocol.md",
        "docs/updating-runners.md",
        "docs/upgrades.md",
        "src/terracrew/protocol/version.py",
    ],
)
def test_versions_that_work_together_are_promised_in_the_same_words(file: str) -> None:
    """One page promised a minor version, another one as many as the protocol lives."""
    promise = (
        "Runners and executors work with servers that are at most one minor version older or newer: "
        "those of 0.1.x with servers of 0.1.x and 0.2.x."
    )
    assert " ".join((ROOT / file).read_text().split()).count(promise) == 1


def test_the_numbers_of_lines_that_we_wrote_by_hand_are_about_right() -> None:
    """Four rows of the record were more than 20 % off."""
    counted, wrong = 0, list[str]()
    for row in (ROOT / "docs" / "decisions" / "0007-hand-written.md").read_text().splitlines():
        if found := re.match(r"\| [^|(]*\((`[^|)]*`), ([\d,]+) lines", row):
            place, lines = SOURCES, 0
            for name in re.findall(r"`([\w/.]+)`", found[1]):
                place = SOURCES / name if "/" in name or place == SOURCES else place.parent / name
                files = place.rglob("*.py") if place.is_dir() else [place]
                lines += sum(len(file.read_text().splitlines()) for file in files)
            counted += 1
            if abs(lines - int(found[2].replace(",", ""))) > 0.2 * lines:
                wrong.append(f"{found[1]} has {lines} lines, and not {found[2]}")
    assert wrong == []
    assert counted > 20

"""Prepares the Markdown pages of the repository for the documentation site.

The pages are copied beside each other as they are in the repository, so that a link works on a forge and on the site alike. The
navigation has the sections and pages of docs/README.md in its order; there is no second list.
"""

import re
import shutil
from pathlib import Path

import reference

ROOT = Path(__file__).resolve().parents[1]
_INDEX = "docs/README.md"
_HOME = "README.md"
_ICON = ROOT / "src" / "terracrew" / "server" / "dashboard" / "static" / "icon.svg"
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")
_SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
_REFERENCE = "## Reference\n"
"""The section of the index to which the generated pages are added."""
_LISTS = ("docs/decisions", "docs/checklists")
"""Folders that pages link to. A forge lists their files, and the site has a page that does."""
_ORPHAN = "---\norphan: true\n---\n\n"
"""What stands above a page that only a list leads to. A navigation with every decision would be long, and cost half of the time."""


def navigation(index: str) -> list[tuple[str, list[str]]]:
    """Return each section of the index with the pages that it links to, as paths from the root of the repository."""
    _, *parts = _SECTION.split(index)
    found: list[tuple[str, list[str]]] = []
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        paths = [_from_root(Path(_INDEX).parent / link) for link in _LINK.findall(text)]
        found.append((title, list(dict.fromkeys(_list_of(path) for path in paths if not path.endswith(".json")))))
    return found


def _list_of(path: str) -> str:
    """Return the page with the list that a page is in, or the page itself."""
    return next((f"{name}/README.md" for name in _LISTS if path == name or path.startswith(f"{name}/")), path)


def _from_root(path: Path) -> str:
    return str((ROOT / path).resolve().relative_to(ROOT))


def stage(folder: Path) -> None:
    """Copy every page into the folder, with what it links to or shows, and add the navigation and the lists of folders."""
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        path = str(page.relative_to(ROOT))
        text = page.read_text()
        for link in _LINK.findall(text):
            target = _from_root(page.parent / link)
            if target in _LISTS:
                text = text.replace(f"]({link})", f"]({link}/README.md)")
            elif (ROOT / target).is_file() and not target.endswith(".md"):
                _copy(target, folder)
        below = sorted(page.with_suffix("").glob("*.md"))
        inner = _toctree("", [f"{page.stem}/{each.stem}" for each in below]) if below else ""
        is_listed = str(Path(path).parent) in _LISTS
        _write(folder / path, f"{_ORPHAN}{text}" if is_listed else f"{text}\n{inner}" if inner else text)
    for name in _LISTS:
        _write(folder / name / "README.md", _list(name))
    _add_reference(folder)
    home = folder / _HOME
    _write(home, f"{home.read_text()}\n{_toctrees((folder / _INDEX).read_text())}")
    shutil.copyfile(_ICON, folder / _ICON.name)


def _copy(path: str, folder: Path) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / path, folder / path)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _list(folder: str) -> str:
    """Return a page that leads to every page of a folder."""
    pages = sorted((ROOT / folder).glob("*.md"))
    rows = [f"- [{_title(page.read_text())}]({page.name})" for page in pages]
    return "\n".join([f"# {Path(folder).name.capitalize()}\n", *rows, ""])


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def _add_reference(folder: Path) -> None:
    """Write the pages that are generated from the code, and name them in the index."""
    pages = reference.pages()
    below = [name for name in pages if name.startswith("api/")]
    pages["api"] = f"{pages['api']}\n{_toctree('', below)}"
    for name, text in pages.items():
        _write(folder / "docs" / "reference" / f"{name}.md", text)
    rows = [f"- [{_title(text)}](reference/{name}.md)" for name, text in pages.items() if name not in below]
    before, _, after = (folder / _INDEX).read_text().partition(_REFERENCE)
    _write(folder / _INDEX, "\n".join([f"{before}{_REFERENCE}", *rows, after]))


def _toctrees(index: str) -> str:
    """Return the navigation for the page that everything begins with. Each page stands in it once."""
    seen = {_HOME}
    found: list[str] = []
    for title, paths in navigation(index):
        new = [path for path in paths if path not in seen]
        if not found:
            new.insert(0, _INDEX)
        seen.update(new)
        found.append(_toctree(title, [path.removesuffix(".md") for path in new]))
    return "\n".join(found)


def _toctree(caption: str, paths: list[str]) -> str:
    options = [":hidden:", ":maxdepth: 1", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["```{toctree}", *options, "", *paths, "```", ""])

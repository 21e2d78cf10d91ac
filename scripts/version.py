"""Prints the version of Terracrew, which is in src/terracrew/__init__.py, or writes another one there and wherever it is repeated.

Charts, examples of commands and names of images repeat the version, because people copy them. `--check` names those that are
different. This script needs nothing but Python, so that a pipeline can ask for the version before it installs anything.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

SOURCE = "src/terracrew/__init__.py"
FOLDERS = ("deploy", "docs", "examples", "src/terracrew/settings")
OTHER_VERSIONS = ("docs/releases.md", "docs/releasing.md", "docs/upgrades.md")
"""Pages about versions: their examples name several."""
OTHER_FOLDERS = ("decisions", "provider")
"""Pages about the past, and pages whose words are made from the API, with examples of other names."""
_VERSION = r"[0-9]+\.[0-9]+\.[0-9]+(?:-(?:alpha|beta|rc)\.[0-9]+)?"
_IN_SOURCE = re.compile(rf'(?<=^__version__ = "){_VERSION}(?="$)', re.MULTILINE)
_IN_CHART = re.compile(r"(?<=^version: )\S+$|(?<=^appVersion: )\S+$", re.MULTILINE)
_OF_IMAGE = re.compile(
    r"(?:(?<=terracrew-server:)|(?<=terracrew-runner:)|(?<=terracrew-executor:)|(?<=\bTAG=))[0-9][\w.-]*\w"
)
_OF_WHEEL = re.compile(r"(?<=terracrew-)[0-9][\w.]*(?=-py3-none-any\.whl|\.tar\.gz)|(?<=terracrew==)[0-9][\w.]*\w")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", nargs="?", help="write this version, such as 0.1.0-rc.2")
    parser.add_argument("--check", action="store_true", help="fail if a place has another version")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help=argparse.SUPPRESS)
    options = parser.parse_args()
    version = options.version or current(options.root)
    if not re.fullmatch(_VERSION, version):
        sys.exit(f"{version!r} is not a version such as 0.1.0 or 0.1.0-rc.1 (or alpha or beta)")
    if options.version:
        _write(options.root, version)
    elif options.check:
        if wrong := sorted(different(options.root, version)):
            sys.exit("\n".join([*wrong, f"the version is {version}: run scripts/version.py {version}"]))
    else:
        print(version)


def current(root: Path) -> str:
    found = _IN_SOURCE.search((root / SOURCE).read_text())
    if found is None:
        sys.exit(f"{SOURCE} has no line with a version such as 0.1.0-rc.1")
    return found[0]


def python_form(version: str) -> str:
    """Return the version as the names of packages of Python have it: 0.1.0rc1."""
    return version.replace("-alpha.", "a").replace("-beta.", "b").replace("-rc.", "rc")


def _replaced(root: Path, version: str, report: Callable[[str], None]) -> Iterator[tuple[Path, str]]:
    """Yield each file that has versions, with the text that it should have. Report each that is different."""
    packages = python_form(version)
    files = [each for folder in FOLDERS for each in sorted((root / folder).rglob("*")) if each.is_file()]
    for file in [root / SOURCE, root / "README.md", *files]:
        is_about_others = str(file.relative_to(root)) in OTHER_VERSIONS or file.parent.name in OTHER_FOLDERS
        if is_about_others or file.suffix not in (
            ".py",
            ".md",
            ".json",
            ".yaml",
            ".yml",
            ".toml",
            ".example",
            ".service",
            "",
        ):
            continue
        rules = [(_OF_IMAGE, version), (_OF_WHEEL, packages)]
        rules += [(_IN_SOURCE, version)] if file == root / SOURCE else []
        rules += [(_IN_CHART, version)] if file.name == "Chart.yaml" else []
        text = was = file.read_text()
        for pattern, right in rules:
            for found in pattern.finditer(text):
                if found[0] != right:
                    report(f"{file.relative_to(root)}: {found[0]}")
            text = pattern.sub(right, text)
        if text != was:
            yield file, text


def different(root: Path, version: str) -> list[str]:
    found: list[str] = []
    list(_replaced(root, version, found.append))
    return found


def _write(root: Path, version: str) -> None:
    for file, text in _replaced(root, version, lambda place: print(f"{place} → {version}")):
        file.write_text(text)


if __name__ == "__main__":
    main()

"""The notes of a release are the section of its version in the changelog, and nothing of another version."""

from pathlib import Path

import pytest

from terracrew import __version__
from terracrew.releases.release_files import section_of

TEXT = """# Changelog

What changed, newest first.

## 0.1.0-rc.10

- Ten.

## [0.1.0-rc.2] (2026-11-20)

Words about it.

### Fixed

- Two. Write:

```
## 0.1.0-rc.1
~~~
```

After the code.

## 0.1.0-rc.1

## 0.0.9
- Nine.
"""


@pytest.mark.parametrize(
    ("version", "notes"),
    [
        ("0.1.0-rc.10", "- Ten."),
        ("0.1.0-rc.1", ""),
        ("0.0.9", "- Nine."),
        ("0.1.0", None),
        ("0.1.0-rc", None),
        ("", None),
        ("What", None),
    ],
)
def test_a_section_belongs_to_exactly_its_version(version: str, notes: str | None) -> None:
    assert section_of(TEXT, version) == notes
    assert section_of(TEXT.replace("\n", "\r\n"), version) == notes


def test_a_section_keeps_its_subsections_and_its_code() -> None:
    notes = section_of(TEXT, "0.1.0-rc.2")
    assert notes is not None
    assert notes.startswith("Words about it.\n\n### Fixed\n")
    assert notes.endswith("```\n## 0.1.0-rc.1\n~~~\n```\n\nAfter the code.")


def test_the_changelog_has_notes_of_this_version() -> None:
    text = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    notes = section_of(text, __version__)
    assert notes, "CHANGELOG.md has no section of the version in src/terracrew/__init__.py"

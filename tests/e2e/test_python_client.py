"""The examples of docs/python-client.md, as a user would run them."""

import re
from pathlib import Path

import pytest

from terracrew.source_rules import archive
from tests.e2e.system import System

PAGE = Path(__file__).parents[2] / "docs" / "python-client.md"
_MAIN = 'resource "terraform_data" "a" {}\noutput "name" {\n  value = "net"\n}\n'


@pytest.mark.engine
def test_the_examples_of_the_page_run(system: System, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system.start_server(runner=True)
    folder = tmp_path / "network"
    folder.mkdir()
    (folder / "main.tf").write_text(_MAIN)
    known: dict[str, object] = {
        "URL": system.url,
        "TOKEN": (system.data / "admin.token").read_text().strip(),
        "SOURCE": archive.pack(folder),
    }
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile("\n".join(examples), str(PAGE), "exec"), known)
    printed = capsys.readouterr().out
    for words in ("platform/network 10", "net", "there is no module `platform/nothing`", "priority"):
        assert words in printed
    assert printed.count("SUCCEEDED\n") == 2

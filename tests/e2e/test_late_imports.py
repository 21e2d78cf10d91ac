"""Executors are forked from a process that has imported everything: an import in an executor would cost each job time and memory."""

from pathlib import Path

import pytest

from tests.e2e import modules
from tests.e2e.system import System

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240), pytest.mark.feature("D1.local")]
SITE = """
import os, sys

def note(text):
    with open(@LOG@, "a") as log:
        log.write(f"{text}\\n")

def listen():
    note("forked")
    sys.addaudithook(lambda event, arguments: note(f"import {arguments[0]}") if event == "import" else None)

os.register_at_fork(after_in_child=listen)
"""


def test_an_executor_imports_nothing(system: System, tmp_path: Path) -> None:
    log = tmp_path / "imports.log"
    (tmp_path / "sitecustomize.py").write_text(SITE.replace("@LOG@", repr(str(log))))
    system.start_server(runner=False)
    system.env["PYTHONPATH"] = str(tmp_path)
    system.start_runner(system.register_runner())
    system.module("app", modules.quick())
    for kind in ("PLAN", "APPLY", "PLAN"):
        ended = system.wait(system.run("app", kind))
        assert ended["status"] == "SUCCEEDED", system.log(ended["id"])
    lines = log.read_text().splitlines()
    assert lines.count("forked") >= 3
    assert [line for line in lines if line != "forked"] == []

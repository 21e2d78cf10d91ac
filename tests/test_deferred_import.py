"""Modules that are imported when they are used first."""

import subprocess
import sys


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_module_is_imported_when_it_is_used_first() -> None:
    code = "import sys; from terracrew import deferred_import; colors = deferred_import.module('colorsys');"
    assert run(f"{code} print('colorsys' in sys.modules)") == "False"
    assert run(f"{code} print(colors.rgb_to_hsv(0, 0, 0), 'colorsys' in sys.modules)") == "(0.0, 0.0, 0) True"


def test_a_process_that_forks_imports_everything_beforehand() -> None:
    code = "import sys; from terracrew.executor import main; names = ('websockets.asyncio.client', 'h11', 'uvloop');"
    code += "before = [name in sys.modules for name in names]; main.warm([]);"
    assert (
        run(f"{code} print(before, [name in sys.modules for name in names])")
        == "[False, False, False] [True, True, True]"
    )


def test_an_import_that_failed_is_tried_again() -> None:
    code = """
import sys
from terracrew import deferred_import
sys.modules["colorsys"] = None
colors = deferred_import.module("colorsys")
try:
    colors.rgb_to_hsv
except ImportError:
    del sys.modules["colorsys"]
print(colors.rgb_to_hsv(0, 0, 0))
"""
    assert run(code) == "(0.0, 0.0, 0)"

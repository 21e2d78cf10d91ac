"""Starts further programs of the version of Terracrew that this process runs.

A runner that has updated itself runs from an overlay: a folder of packages that comes before those of the environment in which people
installed Terracrew (ADR 0080). A variable such as PYTHONPATH would say so as well, but engines would inherit it. So this file is also
a program: it puts its own folder first, and runs a module from there.
"""

import os
import sys

SITE = "site"
RECORD = "installed.json"
"""A file beside `site` that is there when the overlay is complete."""
_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir))


def command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module of this version."""
    return command_in(overlay(), module, *arguments)


def command_in(folder: str | None, module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module of the overlay in this folder, or of the environment."""
    if folder is None:
        return [sys.executable, "-P", "-m", module, *arguments]
    return [
        sys.executable,
        "-P",
        os.path.join(folder, SITE, "terracrew", "system", "own_program.py"),
        module,
        *arguments,
    ]


def overlay() -> str | None:
    """Return the overlay that this process runs from; None if it runs from the environment."""
    folder, name = os.path.split(_ROOT)
    return folder if name == SITE and os.path.exists(os.path.join(folder, RECORD)) else None


def _main() -> None:
    import runpy

    sys.path.insert(0, _ROOT)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()

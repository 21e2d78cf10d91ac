"""Engines for tests beside OpenTofu, which every machine with `make test` has.

A build of each takes minutes, so `make test` does not install them: their tests run where the engine is installed, and are
left out elsewhere. `make test-engines` installs all of them and runs their tests; there, a missing one is an error.
"""

import os

import pytest

from terracrew.cli.commands.engine import showing_progress
from terracrew.toolchains import discovery, install, specs
from terracrew.toolchains.discovery import FoundEngine

OTHER_ENGINES = ("terraform", "pulumi")
MUST_EXIST = "TERRACREW_TEST_ENGINES"
"""The variable that `make test-engines` sets. It runs the tests with the mark `other_engine`."""


def tested_version(name: str) -> FoundEngine:
    """Return the default version of an engine. Another version that this machine may have on its PATH is not used."""
    spec = specs.get(name)
    for found in discovery.find_versions(name):
        if found.version == spec.version:
            return found
    reason = f"{spec.title} {spec.version} is not installed: `make test-engines` installs it"
    return (pytest.fail if os.environ.get(MUST_EXIST) else pytest.skip)(reason)


if __name__ == "__main__":
    with showing_progress() as show:
        for each in OTHER_ENGINES:
            install.install(each, specs.get(each).version, report=show)

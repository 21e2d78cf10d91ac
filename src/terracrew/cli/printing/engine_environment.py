"""Prints which variables of this shell engines would get, without their values."""

import os
from collections.abc import Collection

from terracrew.cli.printing import output


def show_beside_server(patterns: Collection[str], secret_variables: Collection[str]) -> output.Result:
    """Return the variables for engines of built-in runners, which get further ones by patterns and none with secrets of the server."""
    from terracrew.runner import environment

    given = environment.for_engines(os.environ, is_built_in=True, patterns=patterns)
    return _listing(given.keys() - set(secret_variables))


def show_of_runner() -> output.Result:
    """Return the variables for engines of a runner that starts engines on its own machine."""
    from terracrew.runner import environment

    return _listing(environment.for_engines(os.environ, is_built_in=False))


def _listing(given: Collection[str]) -> output.Result:
    withheld = sorted(name for name in os.environ if name not in given)
    rows = [(name, "yes") for name in sorted(given)] + [(name, "no") for name in withheld]
    value = {"given": sorted(given), "withheld": withheld}
    return output.listing(value, ("VARIABLE", "ENGINES GET IT"), rows, empty="this shell has no environment variables")

"""Prints which variables of this shell engines would get, without their values."""

import os
from collections.abc import Collection

from terracrew.cli.printing import output


def show_beside_server(patterns: Collection[str], secret_variables: Collection[str], *, as_json: bool) -> None:
    """Print the variables for engines of built-in runners, which get further ones by patterns and none with secrets of the server."""
    from terracrew.runner import environment

    given = environment.for_engines(os.environ, is_built_in=True, patterns=patterns)
    _show(given.keys() - set(secret_variables), as_json=as_json)


def show_of_runner(*, as_json: bool) -> None:
    """Print the variables for engines of a runner that starts engines on its own machine."""
    from terracrew.runner import environment

    _show(environment.for_engines(os.environ, is_built_in=False), as_json=as_json)


def _show(given: Collection[str], *, as_json: bool) -> None:
    withheld = sorted(name for name in os.environ if name not in given)
    if as_json:
        return output.as_json({"given": sorted(given), "withheld": withheld})
    rows = [(name, "yes") for name in sorted(given)] + [(name, "no") for name in withheld]
    return output.table(("VARIABLE", "ENGINES GET IT"), rows, empty="this shell has no environment variables")

"""Checks environment variables that change what the commands of an engine do: arguments, by the same rules as the flags of steps,
and the workspace."""

import re
import shlex
from collections.abc import Mapping

from terracrew.engine_rules import flags
from terracrew.errors import Invalid

_PREFIX = "TF_CLI_ARGS"
WORKSPACE = "TF_WORKSPACE"
_STEPS = ("init", "validate", "plan", "apply", "output")
"""The commands that read TF_CLI_ARGS; one variable more for each of them adds arguments to this command only."""
_QUOTED = re.compile(r"""'[^']*'|"[^"\\]*\"""")
_SPECIAL = re.compile(r"[\\`$;&|<>()]")
"""What the parser of the engines (go-shellwords) reads in another way than `shlex`, unless it is between quotes."""


def check(environment: Mapping[str, str], *, has_our_backend: bool = False) -> None:
    """Raise Invalid for a variable by which OpenTofu or Terraform would read an argument that Terracrew decides about."""
    for name, text in environment.items():
        if name == _PREFIX or name.startswith(f"{_PREFIX}_"):
            _check(name, text, has_our_backend=has_our_backend)


def check_workspace(environment: Mapping[str, str]) -> None:
    """Raise Invalid if the variables choose a workspace. For modules whose state Terracrew holds: that has no workspaces."""
    chosen = environment.get(WORKSPACE, "")
    if chosen not in ("", "default"):
        raise Invalid(
            f"environment: {WORKSPACE} is `{chosen[:100]}`, but Terracrew holds the state of this module, and its states have no "
            "workspaces: create a module for each workspace, with a variable in place of `terraform.workspace`, or keep the state "
            "in the backend that the source configures (`--own-backend`)",
            field=WORKSPACE,
        )


def _check(name: str, text: str, *, has_our_backend: bool) -> None:
    if special := _SPECIAL.search(_QUOTED.sub("", text)):
        raise Invalid(
            f"environment: {name} has the character {special[0]} outside of quotes, which engines read as part of a command: put "
            "the value between single quotes, or set a variable of the module instead",
            field=name,
        )
    steps = _STEPS if name == _PREFIX else (name.removeprefix(f"{_PREFIX}_"),)
    try:
        arguments = shlex.split(text)
        for step in steps:
            flags.check("tofu", step, arguments)
    except ValueError as error:
        raise Invalid(f"environment: {name} is not a list of arguments: {error}", field=name) from None
    except Invalid as error:
        raise Invalid(f"environment: {name}: {error.message}", field=name) from None
    if has_our_backend and any(flags.name_of(each) == flags.BACKEND_FLAG for each in arguments):
        raise Invalid(
            f"environment: {name}: `-{flags.BACKEND_FLAG}` cannot be added, because Terracrew keeps the state of this "
            "module",
            field=name,
        )

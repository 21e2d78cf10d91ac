"""What people write in comments: `terracrew plan platform/network`."""

import re
from typing import Literal, get_args

import msgspec

from terracrew.errors import Invalid

CommandName = Literal["plan", "apply", "cancel", "allow", "help"]
NAMES: tuple[CommandName, ...] = get_args(CommandName)
PREFIX = "terracrew"
MAX_PATHS = 50
HELP = (
    "`terracrew plan [PATH…]` plans again, `terracrew apply [PATH…]` applies the plans as they are shown, `terracrew cancel [PATH…]` "
    "cancels what has not begun, `terracrew allow COMMIT` lets a pull request of a fork be planned. Without a path, all modules of the "
    "pull request are meant."
)


_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Command(msgspec.Struct, frozen=True):
    name: CommandName
    arguments: tuple[str, ...] = ()
    """Paths of modules; for `allow`, a commit."""


def parse(body: str) -> Command | None:
    """Return the command in the first line of a comment; None if it is no command. Raises Invalid for one that is not known."""
    first = body.lstrip().partition("\n")[0].split()
    if not first or first[0].casefold() != PREFIX:
        return None
    if len(first) == 1:
        return Command("help")
    name = first[1].casefold()
    if name not in NAMES:
        raise Invalid(f"there is no such command. {HELP}")
    arguments = tuple(dict.fromkeys(each.strip("/") for each in first[2:]))
    if len(arguments) > MAX_PATHS:
        raise Invalid(
            f"a comment can name {MAX_PATHS} modules; without a path, all modules of the pull request are meant"
        )
    if name == "allow" and (len(arguments) != 1 or not _COMMIT.fullmatch(arguments[0])):
        raise Invalid("`terracrew allow` needs the commit that was looked at, with all of its digits")
    return Command(name, arguments)

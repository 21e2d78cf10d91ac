"""Gets a token from a credential helper: a program that prints `{"token": "…"}`, which the server exchanges.

The helper runs without a shell and without the variables of Terracrew. It is run again for each renewal, so that it can read a file
that has changed, or ask its issuer for a new token.
"""

import os

import msgspec

from terracrew.errors import ProgramFailed
from terracrew.runner import environment
from terracrew.runner.config import HelperCommand
from terracrew.system import bounded_program
from terracrew.system.bounded_program import ProgramBounds

MAX_STDOUT_BYTES = 64 << 10
MAX_TOKEN_CHARACTERS = 12_000
PURPOSE = "the credential helper"


class PrintedToken(msgspec.Struct, frozen=True):
    token: str

    def __repr__(self) -> str:
        return "PrintedToken(…)"


async def token(command: HelperCommand) -> str:
    """Run the helper and return the token that it printed. Raises ProgramFailed, whose message has nothing that it printed."""
    printed = await bounded_program.run(
        [command.path, *command.arguments],
        purpose=PURPOSE,
        bounds=ProgramBounds(command.timeout_seconds, MAX_STDOUT_BYTES),
        environment=environment.for_engines(os.environ, is_built_in=False),
    )
    words = f'{PURPOSE} {command.path} must print one JSON object {{"token": "…"}} to its standard output'
    try:
        found = msgspec.json.decode(printed, type=PrintedToken).token
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ProgramFailed(f"{words}; it printed {len(printed)} bytes of something else") from None
    if not 0 < len(found) <= MAX_TOKEN_CHARACTERS or not found.isascii() or not found.isprintable():
        raise ProgramFailed(f"{words}; its token is not a text of 1 to {MAX_TOKEN_CHARACTERS} characters")
    return found

"""Asks before a module gets another backend, and brings its state along."""

from typing import TYPE_CHECKING, Any, BinaryIO

from terracrew.cli.arguments import state_files
from terracrew.cli.printing import output
from terracrew.errors import Invalid
from terracrew.wording import backend_words

if TYPE_CHECKING:
    from terracrew.client.http import Api


def confirm(before: dict[str, Any], changes: dict[str, Any], file: BinaryIO | None, *, is_confirmed: bool) -> None:
    """Return if the changes do not leave the state of the module behind, or if the person at the terminal says yes."""
    after = changes.get("backend")
    if file is not None and after != "terracrew":
        raise Invalid("--state brings a state to Terracrew, so it needs --no-own-backend")
    if after is None or file is not None or is_confirmed:
        return
    if words := backend_words.warning(before["path"], before["backend"], after, before.get("state_version") or 0):
        output.note(words)
        output.ask("Change the backend nevertheless?", "The module stays as it is.")


def bring_state(api: "Api", path: str, file: BinaryIO) -> None:
    """Import the state of a file and change the backend in one step, so that no job finds the new backend without the state."""
    made = state_files.upload(api, path, file.read(), force=False, changes_backend=True)
    output.note(f"imported the state with serial {made['serial']} as version {made['version']}")

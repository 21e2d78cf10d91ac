"""Everything that is encrypted under the master key. What is not listed here is lost when an old key is removed.

`tests/server/rekey/test_inventory.py` compares it with the schema and with the sources, so that a new kind is not forgotten.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

from terracrew.server.db.seam import Param, Row
from terracrew.server.identity.keys import signing
from terracrew.server.jobs import job_inputs
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.plans import diff_store
from terracrew.server.runners.starts import service as starts
from terracrew.server.secrets import keyring as master_key
from terracrew.server.state import content
from terracrew.server.state import service as states
from terracrew.server.tree.inputs import sealing as input_sealing
from terracrew.server.tree.modules import module_key


@dataclass(frozen=True)
class Column:
    """A column of ciphertexts. Its statements take the values of the key as parameters."""

    name: str
    column: str
    """The names of the table and the column, with a dot between them."""
    first: Mapping[str, Param]
    """The names of the key's columns, with values below all others."""
    page: LiteralString
    """Reads the next rows after a key, each with its key and the beginning of its ciphertext as `head`."""
    get: LiteralString
    """Reads the ciphertext of one row as `sealed`, with the values that its context consists of."""
    replace: LiteralString
    """Replaces the ciphertext `:old` by `:new`, unless it was changed in the meantime."""
    context: Callable[[Row], str]
    """Returns the context that the ciphertext of a row is bound to."""
    batch_rows: int = 10
    """How many ciphertexts one transaction replaces. With SQLite, all other writers wait for it."""


@dataclass(frozen=True)
class Folder:
    """A folder of the object store in which every object is a ciphertext."""

    name: str
    folder: str
    context: Callable[[str, str], str]
    """Takes the module's id ('' if the object does not belong to a job) and the object's name."""
    job_of: Callable[[str], str]
    """Returns the job that an object belongs to; '' if it belongs to none."""


COLUMNS: tuple[Column, ...] = (
    Column(
        "keys of modules",
        "modules.sealed_key",
        {"id": ""},
        """SELECT id, substr(sealed_key, 1, 9) AS head FROM modules
        WHERE id > :id AND sealed_key IS NOT NULL ORDER BY id LIMIT :most""",
        "SELECT id, sealed_key AS sealed FROM modules WHERE id = :id",
        "UPDATE modules SET sealed_key = :new WHERE id = :id AND sealed_key = :old",
        lambda row: module_key.context(row["id"]),
    ),
    Column(
        "inputs",
        "inputs.sealed",
        {"id": ""},
        """SELECT id, substr(sealed, 1, 9) AS head FROM inputs
        WHERE id > :id AND sealed IS NOT NULL ORDER BY id LIMIT :most""",
        "SELECT id, place_id, target, name, version, sealed FROM inputs WHERE id = :id",
        "UPDATE inputs SET sealed = :new WHERE id = :id AND sealed = :old",
        lambda row: input_sealing.context(row["place_id"], row["target"], row["name"], row["version"]),
    ),
    Column(
        "inputs of jobs",
        "job_inputs.sealed",
        {"job_id": ""},
        "SELECT job_id, substr(sealed, 1, 9) AS head FROM job_inputs WHERE job_id > :job_id ORDER BY job_id LIMIT :most",
        "SELECT job_id, sealed FROM job_inputs WHERE job_id = :job_id",
        "UPDATE job_inputs SET sealed = :new WHERE job_id = :job_id AND sealed = :old",
        lambda row: job_inputs.context(row["job_id"]),
    ),
    Column(
        "states",
        "states.content",
        {"id": ""},
        """SELECT id, substr(content, 1, 9) AS head FROM states
        WHERE id > :id AND content IS NOT NULL ORDER BY id LIMIT :most""",
        "SELECT module_id, job_id, attempt, event, content AS sealed FROM states WHERE id = :id",
        "UPDATE states SET content = :new WHERE id = :id AND content = :old",
        lambda row: content.state_context(row["module_id"], row["job_id"], row["attempt"], row["event"]),
        batch_rows=1,  # up to a MiB each
    ),
    Column(
        "outputs",
        "outputs.content",
        {"job_id": ""},
        """SELECT job_id, substr(content, 1, 9) AS head FROM outputs
        WHERE job_id > :job_id AND object IS NULL ORDER BY job_id LIMIT :most""",
        "SELECT job_id, content AS sealed FROM outputs WHERE job_id = :job_id AND object IS NULL",
        "UPDATE outputs SET content = :new WHERE job_id = :job_id AND content = :old",
        lambda row: states.outputs_context(row["job_id"]),
        batch_rows=1,  # up to a MiB each
    ),
    Column(
        "diffs of plans",
        "plan_diffs.content",
        {"job_id": ""},
        """SELECT job_id, substr(content, 1, 9) AS head FROM plan_diffs
        WHERE job_id > :job_id AND content IS NOT NULL ORDER BY job_id LIMIT :most""",
        "SELECT job_id, content AS sealed FROM plan_diffs WHERE job_id = :job_id AND content IS NOT NULL",
        "UPDATE plan_diffs SET content = :new WHERE job_id = :job_id AND content = :old",
        lambda row: diff_store.context(row["job_id"]),
    ),
    Column(
        "keys of attempts",
        "attempts.state_key",
        {"job_id": "", "number": 0},
        """SELECT job_id, number, substr(state_key, 1, 9) AS head FROM attempts
        WHERE (job_id, number) > (:job_id, :number) ORDER BY job_id, number LIMIT :most""",
        "SELECT job_id, number, state_key AS sealed FROM attempts WHERE job_id = :job_id AND number = :number",
        "UPDATE attempts SET state_key = :new WHERE job_id = :job_id AND number = :number AND state_key = :old",
        lambda row: claims.state_key_context(row["job_id"], row["number"]),
    ),
    Column(
        "starts of attempts",
        "executor_starts.content",
        {"job_id": "", "attempt": 0},
        """SELECT job_id, attempt, substr(content, 1, 9) AS head FROM executor_starts
        WHERE (job_id, attempt) > (:job_id, :attempt) AND content IS NOT NULL ORDER BY job_id, attempt LIMIT :most""",
        """SELECT job_id, attempt, content AS sealed FROM executor_starts
        WHERE job_id = :job_id AND attempt = :attempt AND content IS NOT NULL""",
        """UPDATE executor_starts SET content = :new
        WHERE job_id = :job_id AND attempt = :attempt AND content = :old""",
        lambda row: starts.context(row["job_id"], row["attempt"]),
        batch_rows=1,  # up to 4 MiB each
    ),
    Column(
        "signing keys",
        "signing_keys.private_jwk",
        {"id": ""},
        "SELECT id, substr(private_jwk, 1, 9) AS head FROM signing_keys WHERE id > :id ORDER BY id LIMIT :most",
        "SELECT id, private_jwk AS sealed FROM signing_keys WHERE id = :id",
        "UPDATE signing_keys SET private_jwk = :new WHERE id = :id AND private_jwk = :old",
        lambda row: signing.context(row["id"]),
    ),
    Column(
        "settings",
        "settings.value",
        {"name": ""},
        """SELECT name, substr(value, 1, 9) AS head FROM settings
        WHERE name > :name AND name IN ('built_in_token') ORDER BY name LIMIT :most""",
        "SELECT name, value AS sealed FROM settings WHERE name = :name",
        "UPDATE settings SET value = :new WHERE name = :name AND value = :old",
        lambda row: row["name"],
    ),
)

FOLDERS: tuple[Folder, ...] = (
    Folder("stored states and outputs", "states", content.context_of_object, lambda name: name.split("/")[1]),
    Folder("parts of uploads", "parts", lambda _, name: name, lambda _: ""),
)

LAST = Column(
    "check value",
    "settings.value",
    {"name": ""},
    "SELECT name, substr(value, 1, 9) AS head FROM settings WHERE name > :name AND name = 'master_key_check' LIMIT :most",
    "SELECT name, value AS sealed FROM settings WHERE name = :name",
    "UPDATE settings SET value = :new WHERE name = :name AND value = :old",
    lambda _: master_key.CHECK,
)
"""This is encrypted last. Until then, a server that has only the new key refuses to start."""

ENCRYPTED_SETTINGS = frozenset({"built_in_token", master_key.CHECK})
NOT_ENCRYPTED: Mapping[str, str] = {
    "log_chunks.data": "logs are masked, compressed, and not encrypted",
    "log_objects.blocks": "an index of compressed blocks",
}
"""Binary columns without a ciphertext, and why."""
OTHER_FOLDERS: Mapping[str, str] = {
    "archives": "sources are not encrypted",
    "releases": "published files are not encrypted, and their signatures are checked",
    "plans": "encrypted under the key of their attempt, which is in attempts.state_key",
    "logs": "logs are masked, compressed, and not encrypted",
}
"""Folders of the object store whose objects are not encrypted under the master key, and why."""


def key_of(column: Column, row: Row) -> dict[str, Any]:
    return {name: row[name] for name in column.first}

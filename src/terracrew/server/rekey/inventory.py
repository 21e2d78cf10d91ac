"""Everything that is encrypted under the master key. What is not listed here is lost when an old key is removed.

`tests/server/rekey/test_inventory.py` compares it with the schema and with the sources, so that a new kind is not forgotten.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, LiteralString, TypeAlias

from terracrew.server.db.seam import Param, Row
from terracrew.server.forges import sealing as forge_sealing
from terracrew.server.identity.keys import signing
from terracrew.server.identity.sso import sealing as sso_sealing
from terracrew.server.jobs import job_inputs
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.plans import diff_store, json_store
from terracrew.server.notifications import sealing as channel_sealing
from terracrew.server.runners.starts import service as starts
from terracrew.server.secrets import keyring as master_key
from terracrew.server.state import content
from terracrew.server.state import service as states
from terracrew.server.tree.inputs import sealing as input_sealing
from terracrew.server.tree.modules import module_key

_Key: TypeAlias = Mapping[LiteralString, Param]


@dataclass(frozen=True)
class Column:
    """A column of ciphertexts. Its statements take the values of the key as parameters."""

    name: str
    table: LiteralString
    ciphertext: LiteralString
    """The name of the column."""
    first: _Key
    """The names of the key's columns, with values below all others."""
    context: Callable[[Row], str]
    """Returns the context that the ciphertext of a row is bound to, from the key and the columns `others`."""
    others: tuple[LiteralString, ...] = ()
    condition: LiteralString = "true"
    """Holds for the rows that have a ciphertext of this kind."""
    batch_rows: int = 10
    """How many ciphertexts one transaction replaces. With SQLite, all other writers wait for it."""

    @property
    def column(self) -> str:
        return f"{self.table}.{self.ciphertext}"

    @property
    def page(self) -> LiteralString:
        """Reads the next rows after a key, each with its key and the beginning of its ciphertext as `head`."""
        key, after = ", ".join(self.first), ", ".join([f":{name}" for name in self.first])
        return f"""SELECT {key}, substr({self.ciphertext}, 1, 9) AS head FROM {self.table}
        WHERE ({key}) > ({after}) AND {self._is_encrypted} ORDER BY {key} LIMIT :most"""

    @property
    def get(self) -> LiteralString:
        """Reads the ciphertext of one row as `sealed`, with the values that its context consists of."""
        columns = ", ".join([*self.first, *self.others])
        return f"""SELECT {columns}, {self.ciphertext} AS sealed FROM {self.table}
        WHERE {self._is_row} AND {self._is_encrypted}"""

    @property
    def replace(self) -> LiteralString:
        """Replaces the ciphertext `:old` by `:new`, unless it was changed in the meantime."""
        return f"UPDATE {self.table} SET {self.ciphertext} = :new WHERE {self._is_row} AND {self.ciphertext} = :old"

    @property
    def _is_row(self) -> LiteralString:
        return " AND ".join([f"{name} = :{name}" for name in self.first])

    @property
    def _is_encrypted(self) -> LiteralString:
        return f"{self.ciphertext} IS NOT NULL AND {self.condition}"


@dataclass(frozen=True)
class Folder:
    """A folder of the object store in which every object is a ciphertext."""

    name: str
    folder: str
    context: Callable[[str, str], str]
    """Takes the module's id ('' if the object does not belong to a job) and the object's name."""
    job_of: Callable[[str], str]
    """Returns the job that an object belongs to; '' if it belongs to none."""


_ID: _Key = {"id": ""}
_JOB_ID: _Key = {"job_id": ""}
COLUMNS: tuple[Column, ...] = (
    Column("keys of modules", "modules", "sealed_key", _ID, lambda row: module_key.context(row["id"])),
    Column(
        "inputs",
        "inputs",
        "sealed",
        _ID,
        lambda row: input_sealing.context(row["place_id"], row["target"], row["name"], row["version"]),
        ("place_id", "target", "name", "version"),
    ),
    Column("inputs of jobs", "job_inputs", "sealed", _JOB_ID, lambda row: job_inputs.context(row["job_id"])),
    Column(
        "states",
        "states",
        "content",
        _ID,
        lambda row: content.state_context(row["module_id"], row["job_id"], row["attempt"], row["event"]),
        ("module_id", "job_id", "attempt", "event"),
        batch_rows=1,  # up to a MiB each
    ),
    Column(
        "outputs",
        "outputs",
        "content",
        _JOB_ID,
        lambda row: states.outputs_context(row["job_id"]),
        condition="object IS NULL",
        batch_rows=1,  # up to a MiB each
    ),
    Column("diffs of plans", "plan_diffs", "content", _JOB_ID, lambda row: diff_store.context(row["job_id"])),
    Column("JSON of plans", "plan_json", "content", _JOB_ID, lambda row: json_store.context(row["job_id"])),
    Column(
        "keys of attempts",
        "attempts",
        "state_key",
        {"job_id": "", "number": 0},
        lambda row: claims.state_key_context(row["job_id"], row["number"]),
    ),
    Column(
        "starts of attempts",
        "executor_starts",
        "content",
        {"job_id": "", "attempt": 0},
        lambda row: starts.context(row["job_id"], row["attempt"]),
        batch_rows=1,  # up to 4 MiB each
    ),
    Column(
        "credentials of forges",
        "forge_connections",
        "sealed",
        _ID,
        lambda row: forge_sealing.context(row["id"]),
    ),
    Column(
        "notification channels",
        "notification_channels",
        "sealed",
        _ID,
        lambda row: channel_sealing.context(row["id"]),
    ),
    Column(
        "clients of identity providers",
        "identity_providers",
        "sealed",
        _ID,
        lambda row: sso_sealing.context_of_client_secret(row["id"]),
    ),
    Column(
        "refresh tokens of identity providers",
        "identity_sessions",
        "sealed",
        {"session_id": ""},
        lambda row: sso_sealing.context_of_refresh_token(row["session_id"]),
    ),
    Column("signing keys", "signing_keys", "private_jwk", _ID, lambda row: signing.context(row["id"])),
    Column("settings", "settings", "value", {"name": ""}, lambda row: row["name"], condition="name = 'built_in_token'"),
)

FOLDERS: tuple[Folder, ...] = (
    Folder("stored states and outputs", "states", content.context_of_object, lambda name: name.split("/")[1]),
    Folder("parts of uploads", "parts", lambda _, name: name, lambda _: ""),
)

LAST = Column(
    "check value",
    "settings",
    "value",
    {"name": ""},
    lambda _: master_key.CHECK,
    condition="name = 'master_key_check'",
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

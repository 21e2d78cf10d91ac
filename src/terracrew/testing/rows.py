"""Inserts and changes rows, for tests that need what the product makes in several steps, or only after a while."""

from datetime import datetime
from functools import partial
from typing import Any, LiteralString, cast

import msgspec

from terracrew.server.db.seam import Database, Param, Tx
from terracrew.server.db.statements.table import assignments


async def insert(tx: Tx, table: str, **values: Param) -> None:
    """Insert a row; every other column has its default value."""
    columns, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    await tx.run(cast("LiteralString", f"INSERT INTO {table} ({columns}) VALUES ({places})"), **values)


async def _change(table: str, keys: tuple[str, ...], db: Database | Tx, *which: str, **columns: Any) -> None:
    values = {name: _param(value) for name, value in columns.items()}
    sql = f"UPDATE {table} SET {assignments(*cast('tuple[LiteralString, ...]', tuple(values)))}"
    named = " OR ".join(f"{key} = :which" for key in keys)

    async def work(tx: Tx) -> None:
        if not which:
            await tx.run(cast("LiteralString", sql), **values)
        for each in which:
            changed = await tx.run(cast("LiteralString", f"{sql} WHERE {named}"), **values, which=each)
            assert changed, f"there is no row in {table} that is named {each!r}"

    await (cast("Database", db).write(work) if hasattr(db, "write") else work(cast("Tx", db)))


def _param(value: Any) -> Param:
    """Convert a value to what its column has: whatever is not a scalar is JSON text."""
    if isinstance(value, datetime):
        return value.timestamp()
    plain = msgspec.to_builtins(value)
    return msgspec.json.encode(plain).decode() if isinstance(plain, dict | list | tuple) else cast("Param", plain)


# Each changes the rows that are named by any of these columns; all rows, if none is named.
change_organizations = partial(_change, "organizations", ("id", "name"))
change_groups = partial(_change, "groups", ("id", "path"))
change_modules = partial(_change, "modules", ("id", "path", "group_id"))
change_inputs = partial(_change, "inputs", ("id", "place_id"))
change_users = partial(_change, "users", ("id", "name"))
change_service_accounts = partial(_change, "service_accounts", ("id", "name"))
change_roles = partial(_change, "role_bindings", ("id", "principal_id"))
change_runners = partial(_change, "runners", ("id", "path"))
change_assignments = partial(_change, "assignments", ("runner_id",))
change_instances = partial(_change, "instances", ("id", "runner_id", "once_token_id"))
change_deployments = partial(_change, "cloud_deployments", ("runner_id",))
change_jobs = partial(_change, "jobs", ("id", "module_id"))
change_attempts = partial(_change, "attempts", ("job_id",))
change_plans = partial(_change, "plans", ("job_id",))
change_states = partial(_change, "states", ("id", "module_id"))

"""Writes the people of a large organization into a database: users with roles, tokens and sessions, service accounts, and other
organizations."""

from typing import LiteralString

from terracrew.server.db.seam import Database
from tests.bench.large import GROUPS, NUMBERS, TEAMS, row_id, run_in_batches

USERS, FOREIGN_USERS, ROLES, ACCOUNTS, ORGANIZATIONS = 5_000, 2_000, 20_000, 1_000, 500
TOKENS = SESSIONS = 500
"""How many tokens and sessions one user has, whose lists are read."""
USER, ACCOUNT = f"usr_{1:032}", f"sac_{1:032}"
"""The user and the service account whose pages are read."""


async def fill(db: Database, organization_id: str) -> None:
    """Write everything. The groups must exist."""
    groups = GROUPS - TEAMS
    await run_in_batches(db, _ORGANIZATIONS, ORGANIZATIONS)
    await run_in_batches(db, _USERS, USERS + FOREIGN_USERS, own=USERS, organization_id=organization_id)
    await run_in_batches(db, _ACCOUNTS, ACCOUNTS, groups=groups, organization_id=organization_id)
    await run_in_batches(db, _ROLES, ROLES, groups=groups, users=USERS + 200, organization_id=organization_id)
    await run_in_batches(db, _ROLES_OF_ACCOUNTS, ACCOUNTS, organization_id=organization_id)
    await run_in_batches(db, _TOKENS, TOKENS)
    await run_in_batches(db, _SESSIONS, SESSIONS)


_NOW: LiteralString = "CAST(:now AS double precision)"
_ORGANIZATIONS: LiteralString = f"""INSERT INTO organizations (id, name, created_at)
{NUMBERS}SELECT {row_id("org")}, 'organization-' || i, {_NOW} FROM n"""
_USERS: LiteralString = f"""INSERT INTO users (id, organization_id, name, created_at)
{NUMBERS}SELECT {row_id("usr")}, CASE WHEN i > :own THEN {row_id("org", "1 + n.i % 500")} ELSE CAST(:organization_id AS text) END,
    'user-' || i, {_NOW} FROM n"""
_ACCOUNTS: LiteralString = f"""INSERT INTO service_accounts (id, organization_id, group_id, name, created_by, created_at)
{NUMBERS}SELECT {row_id("sac")}, CAST(:organization_id AS text), {row_id("grp", "100000 + 1 + n.i % :groups")}, 'account-' || i,
    'bench', {_NOW} FROM n"""
# A user has about four roles, and some of the users belong to other organizations. Every tenth role is at one group.
_ROLES: LiteralString = f"""INSERT INTO role_bindings (id, organization_id, principal_kind, principal_id, role, place_kind, group_id,
    path, created_by, created_at)
{NUMBERS}SELECT {row_id("rol")}, CAST(:organization_id AS text), 'user', {row_id("usr", "1 + n.i % :users")},
    CASE WHEN i % 7 = 0 THEN 'owner' ELSE 'viewer' END, 'group', groups.id, groups.path, {row_id("usr", "1")}, {_NOW}
FROM n JOIN groups ON groups.id = {row_id("grp", "100000 + 1 + CASE WHEN n.i % 10 = 0 THEN 47 ELSE n.i % :groups END")}
WHERE true ON CONFLICT DO NOTHING"""
_ROLES_OF_ACCOUNTS: LiteralString = f"""INSERT INTO role_bindings (id, organization_id, principal_kind, principal_id, role,
    place_kind, group_id, path, created_by, created_at)
{NUMBERS}SELECT {row_id("rol", "100000 + n.i")}, CAST(:organization_id AS text), 'service_account', service_accounts.id, 'operator',
    'group', groups.id, groups.path, {row_id("usr", "1")}, {_NOW}
FROM n JOIN service_accounts ON service_accounts.id = {row_id("sac")} JOIN groups ON groups.id = service_accounts.group_id"""
_TOKENS: LiteralString = f"""INSERT INTO api_tokens (id, user_id, name, token_sha256, created_at)
{NUMBERS}SELECT {row_id("tok")}, {row_id("usr", "1")}, 'token-' || i, 'token' || i, {_NOW} FROM n"""
_SESSIONS: LiteralString = f"""INSERT INTO sessions (id, user_id, token_sha256, created_at, seen_at, expires_at)
{NUMBERS}SELECT {row_id("ses")}, {row_id("usr", "1")}, 'session' || i, {_NOW}, {_NOW}, {_NOW} + 86400 FROM n"""

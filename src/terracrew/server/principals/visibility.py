"""What a reader may see, as SQL. The statements of lists begin with these relations.

They start at the reader's role bindings and descend the tree by ids, so that the cost of a list depends on what its reader
may see, and no comparison of paths depends on the collation of a database. A reader who may see everything of an
organization (`Visible.is_everything`) needs none of them.
"""

from typing import LiteralString

from terracrew.server.db.seam import Param
from terracrew.server.principals.authorize import Visible

SEEN_GROUPS: LiteralString = """WITH RECURSIVE bound AS (
    SELECT group_id, module_id FROM role_bindings
    WHERE principal_id = :reader_id AND organization_id = :reader_organization_id
        AND CAST(:reader_roles AS text) LIKE '% ' || role || ' %'
        AND (expires_at IS NULL OR expires_at > :reader_as_of)),
seen_groups (id) AS (
    SELECT group_id FROM bound WHERE group_id IS NOT NULL
    UNION SELECT groups.id FROM seen_groups JOIN groups ON groups.parent_id = seen_groups.id
        AND groups.organization_id || '' = :reader_organization_id)"""
"""Defines `seen_groups`: the groups to which the reader's roles apply.

The expression `organization_id || ''` makes PostgreSQL expect few rows. Without it, PostgreSQL expects thousands of groups and
reads every module of the database instead of those of a few groups. It also keeps SQLite from using the organization's index.
"""
SEEN_MODULES: LiteralString = (
    SEEN_GROUPS
    + """,
seen_modules (id) AS (
    SELECT modules.id FROM seen_groups JOIN modules ON modules.group_id = seen_groups.id
    UNION SELECT module_id FROM bound WHERE module_id IS NOT NULL)"""
)
"""Defines `seen_modules` as well: the modules in those groups, and those where a role is bound to the module itself."""
WAY_GROUPS: LiteralString = (
    SEEN_GROUPS
    + """,
way_groups (id) AS (
    SELECT groups.parent_id FROM bound JOIN groups ON groups.id = bound.group_id WHERE groups.parent_id IS NOT NULL
    UNION SELECT modules.group_id FROM bound JOIN modules ON modules.id = bound.module_id
    UNION SELECT groups.parent_id FROM way_groups JOIN groups ON groups.id = way_groups.id WHERE groups.parent_id IS NOT NULL)"""
)
"""Defines `way_groups` as well: the groups on the way from the organization to what the reader may see."""


def params(seen: Visible) -> dict[str, Param]:
    """Return the parameters of these relations."""
    return {
        "reader_id": seen.reader_id,
        "reader_organization_id": seen.organization_id,
        "reader_roles": seen.roles,
        "reader_as_of": seen.as_of,
    }

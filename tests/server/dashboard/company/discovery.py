"""Discovery rules of the company: one that has found folders in every state, and one that nothing is made by."""

from datetime import timedelta

from terracrew import ids
from terracrew.api.discovery import FolderState
from terracrew.server.discovery import store
from terracrew.server.discovery.model import DiscoveryRule, RuleFolder
from tests.server.dashboard.company.rows import Company

FOLDERS: tuple[tuple[str, FolderState, str, str], ...] = (
    ("prod/archive", "gone", "payments/prod/archive", "its module stays, and nothing is destroyed"),
    ("prod/cache", "new", "payments/prod/cache", ""),
    ("prod/Größe", "invalid", "", "'größe' is not a valid path: use lowercase letters, digits and hyphens"),
    ("prod/ledger", "kept", "payments/prod/ledger", "this module has it as its source already"),
    ("prod/old", "deleted", "payments/prod/old", "its module was deleted: it is made again after the folder was gone"),
    ("prod/queue", "conflict", "payments/prod/queue", "there is a module `payments/prod/queue` already"),
)


async def discovery(made: Company, module: str) -> None:
    found = await _rule(made, "infra", commit_id="9f2c" * 10, include=["prod/*"])
    rows = [
        RuleFolder(
            rule_id=found.id,
            folder=folder,
            path=path,
            state=state,
            module_id=module if state in ("gone", "kept") else None,
            reason=reason,
            changed_at=made.tx.moment,
        )
        for folder, state, path, reason in FOLDERS
    ]
    await store.put_folders(made.tx, rows)
    await _rule(
        made,
        "everything",
        problem="it would make 812 modules at once, and at most 500 are made: narrow its patterns, or divide the repository among "
        "several rules",
        branch="release",
    )


async def _rule(made: Company, name: str, **values: object) -> DiscoveryRule:
    rule = DiscoveryRule(
        id=ids.new("dsc"),
        organization_id=made.organization_id,
        group_id=await made.group("payments"),
        group="payments",
        name=name,
        url="https://github.com/acme/infra",
        created_by=made.user_id,
        created_by_name="elena",
        created_at=made.tx.moment - timedelta(days=30),
        changed_at=made.tx.moment - timedelta(days=3),
        looked_at=made.tx.moment - timedelta(seconds=50),
        due_at=made.tx.moment + timedelta(hours=1),
        **values,  # pyright: ignore[reportArgumentType]
    )
    await store.insert(made.tx, rule)
    return rule

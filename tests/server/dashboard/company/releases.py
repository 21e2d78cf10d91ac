"""Releases for pages: the latest one, one that was withdrawn, one that is breaking, and the first one."""

from datetime import UTC, datetime

from terracrew import ids
from terracrew.server.db.seam import Database, Tx
from terracrew.server.principals.model import SYSTEM
from terracrew.server.releases import rules, service
from terracrew.server.releases.model import Release, ReleaseArtifact

LATEST = """## New

- **Runners that sleep.** A deployed runner stops after some minutes without jobs and wakes for the next one, in about 40 s.
- **Updates in waves.** One runner first, with a no-op job; then the rest.
- `terracrew runner start --check` says before the start what would fail.

## Mended

- The last lines of a log are kept when a runner is drained (1.4.1).
- A spot instance that is taken back reports its job at once instead of after 90 s.
"""
BREAKING = """`runner.slots` is now `runner.capacity`. With the old name the runner does not start.

```diff
- slots = 4
+ capacity = 4
```
"""
WITHDRAWN_REASON = "it lost the last lines of a log while draining"


def release(version: str, day: tuple[int, int], notes: str, breaking_words: str = "", link: str = "") -> Release:
    at = datetime(2026, *day, 9, 30, tzinfo=UTC)
    return Release(
        id=ids.new("rel"),
        version=version,
        base_version=str(rules.parse(version)),
        notes=notes,
        released_at=at,
        link=link,
        is_breaking=bool(breaking_words),
        breaking_words=breaking_words,
        published_by=SYSTEM.id,
        published_by_name=SYSTEM.name,
        published_at=at,
        artifacts=[
            ReleaseArtifact(
                name=f"terracrew-{version}-py3-none-any.whl",
                kind="wheel",
                size_bytes=3,
                sha256="ab" * 32,
                signature="s",
                object_name=f"releases/{version}",
            )
        ],
    )


async def publish(db: Database, *releases: Release) -> None:
    async def work(tx: Tx) -> None:
        for each in releases:
            await service.publish(tx, SYSTEM, each)

    await db.write(work)


async def publish_all(db: Database) -> None:
    """Publish four releases, of which instances of the company have two."""
    await publish(
        db,
        release("1.3.2", (10, 6), "Reconnects faster after a break"),
        release("1.4.0", (11, 2), "- Settings can be changed from the dashboard.\n- Pulumi 3.142.", BREAKING),
        release("1.4.1", (11, 11), "Mends a fault of `drain`."),
        release("1.5.0", (11, 16), LATEST, link="https://releases.example/1.5.0"),
    )
    await db.write(lambda tx: service.withdraw(tx, SYSTEM, "1.4.1", WITHDRAWN_REASON))

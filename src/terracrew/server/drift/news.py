"""Says what people are notified of: what a check has found that the one before had not, and mutes that have ended."""

from terracrew.api.drift import DriftMute, DriftResult
from terracrew.api.notifications import NotificationContent
from terracrew.server.announcements.model import Announcement
from terracrew.server.drift.model import DriftModule
from terracrew.wording import drift_words

MAX_ADDRESSES = 10
"""How many addresses a message names."""


def of_result(result: DriftResult, organization_id: str) -> Announcement:
    """Return what people are notified of after a check that has found a difference."""
    shown = [f"{each.kind}: {each.address}" for each in result.differences[:MAX_ADDRESSES]]
    if (left := len(result.differences) - len(shown)) > 0:
        shown.append(f"and {left:,} more")
    return Announcement(
        event="drift",
        organization_id=organization_id,
        module_id=result.module_id,
        subject_id=f"drift:{result.module_id}",
        content=NotificationContent(
            title=f"Drift: {drift_words.counts(result.differences)}",
            text="\n".join(shown),
            link=f"/dashboard/drift/{result.module_id}",
            facts={
                "Addresses that differ": f"{result.drifted:,}",
                "Muted": f"{result.muted:,}" if result.muted else "",
            },
        ),
    )


def of_problem(before: DriftModule, after: DriftModule) -> list[Announcement]:
    """Return what people are notified of when a check fails. A check that fails after one that failed is nothing new."""
    if before.problem or not after.problem:
        return []
    return [
        Announcement(
            event="drift",
            organization_id=after.organization_id,
            module_id=after.module_id,
            subject_id=f"drift:{after.module_id}",
            content=NotificationContent(
                title="Drift: the check failed",
                text=f"{after.problem}\nNobody is notified of it again until a check succeeds.",
                link=f"/dashboard/drift/{after.module_id}",
            ),
        )
    ]


def of_ended_mute(mute: DriftMute) -> Announcement:
    """Return what people are notified of when a mute ends and its address still differs."""
    return Announcement(
        event="drift",
        organization_id=mute.organization_id,
        module_id=mute.module_id,
        subject_id=f"drift:{mute.module_id}",
        content=NotificationContent(
            title=f"Drift: the mute of {mute.address} has ended",
            text=f"It still differs. {mute.created_by_name} had muted it: {mute.reason}",
            link=f"/dashboard/drift/{mute.module_id}",
        ),
    )

"""The badges of connections to forges, their permissions, hooks and deliveries."""

from terracrew.api.forges import Finding, ForgeDeliveryView, ForgeView, HookStatus
from terracrew.server.dashboard.badges import Badge
from terracrew.server.forges.model import ForgeConnection


def badge(forge: ForgeView | ForgeConnection) -> Badge:
    """Return whether a connection works."""
    if forge.problem:
        return Badge("bad", "mark", "Failing")
    if any(not each.is_good for each in forge.findings):
        return Badge("warn", "mark", "Permission missing")
    if forge.contacted_at is None:
        return Badge("idle", "slash", "Not used yet")
    return Badge("ok", "tick", "Working")


def finding_badge(finding: Finding) -> Badge:
    return Badge("ok", "tick", "Given") if finding.is_good else Badge("warn", "mark", "Missing")


def hook_badge(status: HookStatus) -> Badge:
    match status:
        case "enabled":
            return Badge("ok", "tick", "Hook enabled")
        case "disabled":
            return Badge("bad", "mark", "Hook disabled")
        case "missing":
            return Badge("warn", "mark", "Hook missing")
        case "none":
            return Badge("idle", "slash", "Polled")
        case "unknown":
            return Badge("idle", "clock", "Not checked yet")


def delivery_badge(delivery: ForgeDeliveryView) -> Badge:
    if delivery.handled_at is None:
        return Badge("warn", "clock", "Trying again") if delivery.problem else Badge("busy", "clock", "Waiting")
    return Badge("idle", "slash", "Not used") if delivery.problem else Badge("ok", "tick", "Handled")

"""An alert about a runner in words, the same on its page and on the command line."""

WHAT_TO_DO = {
    "moved": "Nothing is wrong if the machine was moved or got another address.",
    "taken_over": "If you did not move it there, replace its token (`terracrew runner reregister`) and look at its last jobs.",
    "refused": "If you did not start a second process, replace its token (`terracrew runner reregister`).",
    "ended_token": "Somebody has a copy of an earlier token, or a machine was restored from an older image. If you did not "
    "restore one, replace the token (`terracrew runner reregister`) and look at its last jobs.",
}
_SENTENCES = {
    "moved": "{name} connected from {there}{before}",
    "taken_over": "A process at {there} took the place of {name}{before}, which did not answer",
    "refused": "A process at {there} wanted the place of {name}{before}, which is connected and kept it",
    "ended_token": "A client at {there} used a worker token that this runner had replaced",
}


def sentence(
    kind: str, instance: str, address: str | None, former_address: str | None, count: int, *, is_other_machine: bool
) -> str:
    """Return what happened. A kind that this version does not know keeps its name."""
    if kind not in _SENTENCES:
        return f"{kind} {instance}".strip()
    there = address or "an unknown address"
    if is_other_machine and address == former_address:
        there += " on another machine"
    before = f" ({'before: ' if kind == 'moved' else 'at '}{former_address})" if former_address else ""
    text = _SENTENCES[kind].format(name=instance or "an instance", there=there, before=before)
    return f"{text}, {count} times" if count > 1 else text

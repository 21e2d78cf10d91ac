"""Who holds the lock of a module, in words, the same on pages and in a terminal."""


def holder(kind: str, name: str, credential: str) -> str:
    """Return who holds a lock: `ann's terminal`, or a person in a browser, or a service account."""
    if kind == "service_account":
        return f"the service account {name}"
    return name if credential == "session" else f"{name}'s terminal"

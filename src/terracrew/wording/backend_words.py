"""What a change of the place where a module's state is kept means, in words: the same on page and terminal."""


def warning(path: str, before: str, after: str, state_version: int) -> str:
    """Return what somebody must know who changes the backend of a module; '' if nothing changes or nothing is lost.

    `state_version` is the version of the state that Terracrew has of the module; 0 if it has none.
    """
    if before == after:
        return ""
    if after == "own":
        if not state_version:
            return ""
        return (
            f"Terracrew keeps version {state_version} of the state of {path}, and its jobs do not use it any more: a plan creates "
            "everything again that the other backend does not know. Push it there before the next job: "
            f"`terracrew state show {state_version} --module {path} > state.json`, then `tofu state push state.json`"
        )
    if not state_version:
        has = f"Terracrew has no state of {path}, so its next plan creates everything again"
    else:
        has = f"Terracrew has version {state_version} of the state of {path}, from before its state was kept elsewhere"
    return (
        f"{has}. Bring the state from the other backend: `tofu state pull > state.json` where the configuration is, then "
        f"`terracrew state import {path} state.json`"
    )

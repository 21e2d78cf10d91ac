"""Uploads states that somebody brings from elsewhere."""

from typing import TYPE_CHECKING, Any

from terracrew.cli.printing import progress

if TYPE_CHECKING:
    from terracrew.client.http import Api


def upload(api: "Api", module: str, content: bytes, *, force: bool, changes_backend: bool = False) -> dict[str, Any]:
    """Make a state the current one of a module, and return what the server says about it."""
    from terracrew.client.http import segment

    asked = [name for name, is_asked in (("force", force), ("change_backend", changes_backend)) if is_asked]
    query = "?" + "&".join(f"{name}=true" for name in asked) if asked else ""

    with progress.of_bytes() as report:
        return api.upload_in_parts(
            f"/modules/{segment(module)}/states{query}",
            content,
            "application/json",
            target="state",
            progress=lambda arrived: report("uploading", arrived, len(content)),
        )

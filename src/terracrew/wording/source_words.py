"""Describes where the configuration of a module comes from."""

from terracrew.protocol.spec import ArchiveSource, GitSource, LocalSource, PluginSource, RegistrySource, Source

REVISIONS = ("branch", "tag", "commit", "version")
"""The fields of a git repository that choose a revision."""


def describe(source: Source) -> str:
    """Return the source of a module in a few words."""
    below = f"//{source.subdirectory}" if source.subdirectory else ""
    match source:
        case GitSource():
            revision = next((f", {kind} {text}" for kind in REVISIONS if (text := getattr(source, kind))), "")
            return f"{source.url}{below}{revision}"
        case RegistrySource():
            return f"{source.address}{below}, {f'version {source.version}' if source.version else 'newest version'}"
        case LocalSource():
            return f"{source.path}{below} on the runner"
        case ArchiveSource():
            return f"uploaded archive {source.sha256[:12] or source.archive_id}{below}"
        case PluginSource():
            return f"{source.plugin} (plug-in){below}"

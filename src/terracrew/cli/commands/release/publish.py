"""`terracrew release publish`: sends the signed files of a release, and publishes it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from terracrew.api.releases import AddedFile, NewArtifact, NewRelease, ReleaseView
from terracrew.cli.arguments import settings
from terracrew.cli.arguments.values import Moment
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output, progress
from terracrew.client.address import segment
from terracrew.errors import Invalid

if TYPE_CHECKING:
    from terracrew.client.http import Api

_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "publish",
    epilog=output.examples(
        "terracrew release publish 0.1.0 --notes CHANGELOG.md --artifact build/0.1.0",
        "terracrew release publish 0.2.0 --breaking 'Stop the runners first.'",
    ),
)
@click.argument("version")
@click.option("--notes", type=_file, metavar="FILE", help="A changelog with the heading `## VERSION`, in Markdown.")
@click.option(
    "--whole-notes", is_flag=True, help="The whole file is the notes of this version, without such a heading."
)
@click.option(
    "--artifact",
    "artifacts",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="A file with its signature beside it (PATH.minisig), or a folder of such files. Can be repeated.",
)
@settings.request_options(NewRelease, "new", own=("version", "released_at", "breaking_words"))
@click.option("--released-at", type=Moment(), metavar="TIME", help="When it was released [now].")
@click.option(
    "--breaking", "breaking_words", default="", metavar="TEXT", help="It is breaking; what to do before an update."
)
@output.with_target
def publish(
    target: Target, new: NewRelease, notes: Path | None, whole_notes: bool, artifacts: tuple[Path, ...]
) -> output.CommandResult:
    """Publish VERSION of Terracrew on this server, as an administrator or with a release token.

    The server checks the signature of every artifact with the key in its settings (`release_key`). Nothing is visible before
    everything has arrived, and a version is published once. A file NAME.image has the reference of an image with its digest.
    """
    files = _files(artifacts)
    text = _notes(notes, new.version, is_whole=whole_notes)
    api = target.api()
    sent = [_sent(api, new.version, each, signature) for each, signature in files]
    wanted = msgspec.structs.replace(new, notes=text, is_breaking=bool(new.breaking_words), artifacts=sent)
    made = api.post("/releases", wanted, ReleaseView)
    return output.details(
        made,
        [
            ("published", made.version),
            ("artifacts", [each.name for each in made.artifacts] or "none"),
            ("latest", "yes" if made.is_latest else "no"),
        ],
    )


def _notes(file: Path | None, version: str, *, is_whole: bool) -> str:
    """Return the notes of a version from a file."""
    from terracrew.releases import release_files

    if file is None:
        return ""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} cannot be read: {error}") from None
    found = text.strip() if is_whole else release_files.section_of(text, version)
    if not found:
        raise Invalid(
            f"{file} has no notes of {version}",
            hint=f"give it a section with the heading `## {version}`, or use --whole-notes",
        )
    return found


def _files(given: tuple[Path, ...]) -> list[tuple[Path, str]]:
    """Return the artifacts with their signatures, those of folders included. Everything is looked at before anything is sent."""
    from terracrew.releases import release_files

    suffix = release_files.SIGNATURE_SUFFIX
    found: list[tuple[Path, str]] = []
    for path in given:
        inside = [path]
        if path.is_dir():
            inside = sorted(each for each in path.iterdir() if each.is_file() and each.suffix != suffix)
        if not inside:
            raise Invalid(f"{path} has no files")
        for each in inside:
            release_files.checked_name(each.name)
            release_files.kind_of(each.name)
            signature = each.with_name(f"{each.name}{suffix}")
            try:
                found.append((each, signature.read_text(encoding="utf-8")))
            except (OSError, UnicodeDecodeError) as error:
                raise Invalid(
                    f"the signature {signature} cannot be read: {error}", hint="`make release` signs every file"
                ) from None
    names = [each.name for each, _ in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Invalid(f"two artifacts are called {twice}")
    return found


def _sent(api: "Api", version: str, file: Path, signature: str) -> NewArtifact:
    """Send a file, and return the artifact as the API takes it."""
    import hashlib

    from terracrew.releases import release_files

    kind = release_files.kind_of(file.name)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error}") from None
    if kind == "image":
        name = file.name.removesuffix(release_files.IMAGE_SUFFIX)
        reference = content.decode("utf-8", errors="replace").removesuffix("\n")
        return NewArtifact(name=name, kind=kind, signature=signature, reference=reference)
    with progress.of_bytes() as report:

        def show(arrived: int) -> None:
            report(f"uploading {file.name}", arrived, len(content))

        show(0)
        added = api.upload_in_parts(
            f"/releases/{segment(version)}/files",
            content,
            "application/octet-stream",
            AddedFile,
            target=f"release {version}",
            progress=show,
        )
    sha256 = hashlib.sha256(content).hexdigest()
    return NewArtifact(name=file.name, kind=kind, sha256=sha256, signature=signature, upload=added.upload)

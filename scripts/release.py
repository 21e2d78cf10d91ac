"""Makes a release of the commit that is checked out: packages and images, checksums, and a signature of each file.

Everything is in build/release/VERSION at the end, or nothing is. With --server, it is published too. docs/releasing.md says how a
release is made and how people verify one.
"""

import argparse
import getpass
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import images
import python_packages
import version as versions
from steps import step

from terracrew.errors import TerracrewError
from terracrew.releases import minisign, release_files
from terracrew.releases.minisign import SecretKey

SUMS = "SHA256SUMS"


def main(arguments: Sequence[str]) -> None:
    options = _parser().parse_args(arguments)
    try:
        if options.new_key:
            _make_key(options.new_key, options.password_file)
        else:
            _release(options)
    except TerracrewError as error:
        sys.exit(error.message)


def _parser() -> argparse.ArgumentParser:
    environ = os.environ
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--new-key", type=Path, metavar="FILE", help="make a key to sign with, and FILE.pub, and end")
    parser.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        default=environ.get("RELEASE_KEY_FILE"),
        help="the secret key, of minisign [RELEASE_KEY_FILE]",
    )
    parser.add_argument(
        "--password-file",
        type=Path,
        metavar="FILE",
        default=environ.get("RELEASE_KEY_PASSWORD_FILE"),
        help="has the password of the key; without it, you are asked [RELEASE_KEY_PASSWORD_FILE]",
    )
    parser.add_argument(
        "--without-images",
        action="store_true",
        default=bool(environ.get("WITHOUT_IMAGES")),
        help="make packages only [WITHOUT_IMAGES]",
    )
    parser.add_argument(
        "--images",
        metavar="NAME",
        default=environ.get("IMAGES", "terracrew"),
        help="images are called NAME-server and so on [IMAGES]",
    )
    parser.add_argument(
        "--images-once",
        action="store_true",
        default=bool(environ.get("IMAGES_ONCE")),
        help="build the images once, with Docker's cache, and do not compare two builds [IMAGES_ONCE]",
    )
    parser.add_argument("--push", action="store_true", default=bool(environ.get("PUSH")), help="push the images [PUSH]")
    parser.add_argument("--server", metavar="URL", default=environ.get("PUBLISH_TO"), help="publish there [PUBLISH_TO]")
    parser.add_argument("--link", metavar="URL", default=environ.get("LINK"), help="a page about the release [LINK]")
    parser.add_argument(
        "--breaking", metavar="TEXT", default=environ.get("BREAKING"), help="what to do before an update [BREAKING]"
    )
    parser.add_argument(
        "--min-server-version",
        metavar="VERSION",
        default=environ.get("MIN_SERVER_VERSION"),
        help="the lowest version of a server with which it works [MIN_SERVER_VERSION]",
    )
    parser.add_argument("--base", help="as for scripts/images.py")
    parser.add_argument("--network", help="as for scripts/images.py")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help=argparse.SUPPRESS)
    return parser


def _release(options: argparse.Namespace) -> None:
    root: Path = options.root
    version = versions.current(root)
    made = root / "build" / "release" / version
    commit = _check(root, version, made)
    if not options.without_images and not images.is_docker_there():
        sys.exit(
            "the images cannot be built: Docker does not answer. Start it, or make the packages alone with WITHOUT_IMAGES=1"
        )
    key = _key(options.key, options.password_file)
    print(f"release {version} of commit {commit[:12]}, signed with key {key.id_text}", flush=True)
    draft = made.with_name(f".{version}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    python_packages.build(root, commit, draft)
    if not options.without_images:
        _add_images(options, version, commit, draft)
    _write_sums(draft)
    _sign(draft, version, key)
    draft.rename(made)
    for file in sorted(made.iterdir()):
        print(f"{file.stat().st_size:>12,}  {file.relative_to(root)}")
    print(f"public key {key.public_key}", flush=True)
    if options.server:
        _publish(options, made, version, commit)


def _publish(options: argparse.Namespace, made: Path, version: str, commit: str) -> None:
    words = ["--url", options.server, "release", "publish", version, "--notes", str(options.root / "CHANGELOG.md")]
    words += ["--artifact", str(made), "--commit", commit]
    words += ["--link", options.link] if options.link else []
    words += ["--breaking", options.breaking] if options.breaking else []
    words += ["--min-server-version", options.min_server_version] if options.min_server_version else []
    if subprocess.run([sys.executable, "-m", "terracrew.cli", *words], check=False).returncode:
        sys.exit(
            f"{version} is made and signed, but not published. To try again:\n    {shlex.join(['terracrew', *words])}"
        )


def _add_images(options: argparse.Namespace, version: str, commit: str, draft: Path) -> None:
    """Build the images. Put their bills of materials into the folder, and the references of those that were pushed."""
    arguments = ["--name", options.images, "--epoch", _git(options.root, "log", "-1", "--format=%ct", commit)]
    arguments += ["--base", options.base] if options.base else []
    arguments += ["--network", options.network] if options.network else []
    if not options.images_once:
        images.main([*arguments, "--tag", f"{version}-again", "--no-cache"])
    images.main([*arguments, "--tag", version, *(["--no-cache"] if not options.images_once else [])])
    for target in images.TARGETS:
        image = f"{options.images}-{target}:{version}"
        if not options.images_once:
            _compare(image, f"{image}-again")
        bill = images.ROOT / "build" / "images" / f"{target}.cdx.json"
        shutil.copy(bill, draft / f"terracrew-{target}-{version}.cdx.json")
        if options.push:
            # The registry decides the digest, so it is known only now. The file is signed like every other one.
            (draft / f"terracrew-{target}.image").write_text(images.push(image) + "\n")
    if not options.push:
        print(
            "The images are in Docker on this machine only. With PUSH=1, they and their digests are part of the release."
        )


def _compare(image: str, again: str) -> None:
    """End with an error unless two builds gave the same image: the same id is the same content of each layer."""
    if images.image_id(image) != images.image_id(again):
        sys.exit(f"not reproducible: {image} and {again}, which is the same, have different ids; both are in Docker")
    images.remove(again)


def _check(root: Path, version: str, made: Path) -> str:
    """Return the id of the commit to release. Ends with what is wrong if it is not ready, before anything is built."""
    if changed := _git(root, "status", "--porcelain"):
        sys.exit(f"the checkout has changes that are not committed:\n{changed}")
    if wrong := sorted(versions.different(root, version)):
        sys.exit("\n".join([*wrong, f"the version is {version}: run scripts/version.py {version}, and commit"]))
    if not release_files.section_of((root / "CHANGELOG.md").read_text(), version):
        sys.exit(f"CHANGELOG.md has no notes of this version: write a section with the heading `## {version}`")
    if made.exists():
        sys.exit(f"{made.relative_to(root)} exists: this version was made before. Remove it, or make another version")
    commit = _git(root, "rev-parse", "HEAD")
    tagged = _git(root, "tag", "--list", f"v{version}") and _git(root, "rev-parse", f"v{version}^{{commit}}")
    if tagged and tagged != commit:
        sys.exit(
            f"the tag v{version} is on commit {tagged[:12]}, and {commit[:12]} is checked out: make another version"
        )
    return commit


def _key(file: Path | None, password_file: Path | None) -> SecretKey:
    if file is None:
        sys.exit("name the key to sign with: RELEASE_KEY_FILE, or --key. --new-key makes one")
    try:
        text = Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"the key {file} cannot be read: {error}")
    if not minisign.has_password(text):
        return SecretKey.parse(text)
    password = _password_of(password_file)
    with step("opening the key with its password"):
        return SecretKey.parse(text, password)


def _password_of(file: Path | None) -> str:
    if file is not None:
        try:
            return Path(file).read_text().splitlines()[0]
        except (OSError, UnicodeDecodeError, IndexError) as error:
            sys.exit(f"the password in {file} cannot be read: {error}")
    if not sys.stdin.isatty():
        sys.exit("the key has a password: name a file that has it with RELEASE_KEY_PASSWORD_FILE, or --password-file")
    return getpass.getpass("Password of the key: ")


def _make_key(file: Path, password_file: Path | None) -> None:
    """Write a new secret key, readable by its owner alone, and the public key beside it."""
    password = _password_of(password_file)
    if password_file is None and getpass.getpass("The same again: ") != password:
        sys.exit("the two passwords are different: no key was made")
    key = SecretKey.generate()
    public = file.with_name(f"{file.name}.pub")
    if public.exists():
        sys.exit(f"{public} exists: no key is replaced")
    with step("encrypting the key with its password"):
        text = key.to_file(password)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        sys.exit(f"{file} cannot be made: {error}. No key is replaced")
    with open(descriptor, "w") as opened:
        opened.write(text)
    public.write_text(key.public_key.to_file())
    print(
        f"{file} is the secret key{'' if password else ', without a password'}: keep a copy where only you can read it."
    )
    print(f"{public} is the public key. A server takes releases that it verifies with the setting\n")
    print(f'    release_key = "{key.public_key}"')


def _write_sums(folder: Path) -> None:
    lines: list[str] = []
    for file in sorted(folder.iterdir()):
        with file.open("rb") as opened:
            lines.append(f"{hashlib.file_digest(opened, 'sha256').hexdigest()}  {file.name}\n")
    (folder / SUMS).write_text("".join(lines))


def _sign(folder: Path, version: str, key: SecretKey) -> None:
    """Sign each file, and verify each signature again as somebody would who has the public key."""
    with step("signing"):
        for file in sorted(folder.iterdir()):
            text = minisign.sign(key, file, minisign.release_comment(version, file.name))
            minisign.verify_release_file(key.public_key, file, text, version, file.name)
            file.with_name(f"{file.name}.minisig").write_text(text)


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    main(sys.argv[1:])

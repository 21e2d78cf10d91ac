"""A credential of the module for its repository: a token for https, or a private key for ssh with the host keys to expect.

It is given to git in files that only this user can read, in the attempt's own directory, and only for as long as the fetch takes.
"""

import contextlib
import hashlib
import shlex
import tempfile
from collections.abc import Generator
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec

from terracrew.errors import Invalid
from terracrew.protocol.spec import GitSource
from terracrew.source_rules import git

_SSH_OPTIONS = (
    *(
        "-F",
        "/dev/null",
        "-oBatchMode=yes",
        "-oConnectTimeout=20",
        "-oServerAliveInterval=15",
        "-oServerAliveCountMax=4",
    ),
    *(
        "-oIdentitiesOnly=yes",
        "-oIdentityAgent=none",
        "-oStrictHostKeyChecking=yes",
        "-oGlobalKnownHostsFile=/dev/null",
    ),
)
_DEFAULT_USER = "git"
_MAX_CREDENTIAL_BYTES = 64 << 10


class GivenCredential(msgspec.Struct, frozen=True):
    """What git is told to authenticate with, instead of what the runner's user has."""

    settings: tuple[str, ...] = ()
    """Settings of git, `name=value`."""
    environment: dict[str, str] = {}
    folder: str = ""
    """Where the files are that they name."""
    identity: str = ""
    """A hash that stands for it. What one credential has fetched is not given to the users of another one."""


@contextlib.contextmanager
def given(source: GitSource, value: str | None, scratch: Path | None) -> Generator[GivenCredential]:
    """Prepare the credential of a source, if it has one. `value` is what the variable that it names contains."""
    if not source.credential:
        yield GivenCredential()
        return
    if not value or len(value.encode()) > _MAX_CREDENTIAL_BYTES:
        raise Invalid(
            f"source.credential: the module has no environment variable {source.credential} with a credential in it: set a "
            "secret of this name on the module or on a group above it"
        )
    identity = hashlib.sha256(value.encode()).hexdigest()
    with tempfile.TemporaryDirectory(prefix="credential-", dir=scratch) as folder:
        if git.is_https(source.url):
            yield _for_https(source.url, value, Path(folder), identity)
        else:
            yield _for_ssh(source.known_hosts, value, Path(folder), identity)


def _for_https(url: str, token: str, folder: Path, identity: str) -> GivenCredential:
    """Only the host of the source gets the token: git asks the file for each host, and the file has one."""
    parts = urlsplit(url)
    token = token.strip()
    if "\n" in token:
        raise Invalid("source.credential: the credential of an https address has more than one line; a token has one")
    user = parts.username or _DEFAULT_USER
    host = parts.netloc.rpartition("@")[2]
    file = _private(folder / "store", f"https://{quote(user, safe='')}:{quote(token, safe='')}@{host}\n")
    helper = f"store --file={shlex.quote(str(file))}"
    settings = (
        "core.askPass=",
        "credential.helper=",
        f"credential.helper={helper}",
    )  # an empty one drops those before it
    return GivenCredential(settings, {"GIT_ASKPASS": "", "SSH_ASKPASS": ""}, str(folder), identity)


def _for_ssh(known_hosts: str, key: str, folder: Path, identity: str) -> GivenCredential:
    key_file = _private(folder / "key", key.replace("\r\n", "\n").strip() + "\n")  # ssh refuses other line endings
    hosts_file = _private(folder / "known_hosts", known_hosts.strip() + "\n")
    command = shlex.join(["ssh", *_SSH_OPTIONS, "-i", str(key_file), f"-oUserKnownHostsFile={hosts_file}"])
    environment = {"GIT_SSH_COMMAND": command, "GIT_SSH_VARIANT": "ssh", "GIT_SSH": ""}
    return GivenCredential((), environment, str(folder), identity)


def _private(file: Path, text: str) -> Path:
    file.touch(mode=0o600)
    file.write_text(text)
    return file

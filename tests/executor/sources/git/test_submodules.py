"""Submodules are fetched by the same rules as their parent, and a hostile one is refused before anything is run."""

from pathlib import Path

import pytest

from terracrew.errors import Invalid, TerracrewError
from terracrew.executor.sources.git import checkout
from terracrew.protocol.spec import GitSource
from tests.executor.sources.git.conftest import Fetches
from tests.machine.git_https import GitHttps
from tests.machine.repositories import MODULE, Repository

pytestmark = pytest.mark.feature("J5.git")


def add(parent: Repository, child: Repository, path: str, url: str) -> str:
    """Commit a submodule with this address, which no command of git would accept in each case."""
    commit = child.git("rev-parse", "HEAD")
    with open(parent.folder / ".gitmodules", "a") as file:
        file.write(f'[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n')
    parent.git("add", ".gitmodules")
    parent.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    parent.git("commit", "--quiet", "--message", "a submodule")
    return commit


@pytest.fixture
def child(server: GitHttps) -> Repository:
    made = Repository(server.root / "child")
    made.commit("first", child="# the child\n")
    return made


async def test_submodules_are_fetched_at_their_commit_also_below_submodules(
    server: GitHttps, repository: Repository, child: Repository, fetch: Fetches
) -> None:
    inner = Repository(server.root / "inner")
    inner.commit("first", inner="# the inner one\n")
    add(child, inner, "deep", "../inner")
    add(repository, child, "modules/child", server.of("child"))
    child.commit("later", child="# changed\n")
    await fetch(GitSource(server.of("network")))
    assert {"main.tf", "modules/child/child.tf", "modules/child/deep/inner.tf"} <= fetch.files.keys()
    assert fetch.files["modules/child/child.tf"] == "# the child\n"
    assert not list(fetch.workspace.rglob(".git"))
    await fetch(GitSource(server.of("network"), submodules=False))
    assert fetch.files.keys() == {"main.tf", ".gitmodules"}


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c 'touch {marker}'",
        "file://{root}/child",
        "{root}/child",
        "--upload-pack=touch {marker}",
        "-oProxyCommand=touch {marker}",
        "ssh://-oProxyCommand=touch%20{marker}/x",
        "../../../../../../child",
        "http://localhost/child",
    ],
)
async def test_a_submodule_with_a_hostile_address_is_refused(
    server: GitHttps, repository: Repository, child: Repository, fetch: Fetches, tmp_path: Path, url: str
) -> None:
    marker = tmp_path / "marker"
    add(repository, child, "child", url.format(marker=marker, root=server.root))
    with pytest.raises(Invalid, match=r"the submodule 'child' of the repository .* is refused: "):
        await fetch(GitSource(server.of("network")))
    assert not marker.exists()
    assert not (fetch.workspace / "child").exists()


async def test_a_submodule_without_an_address_is_refused(
    server: GitHttps, repository: Repository, child: Repository, fetch: Fetches
) -> None:
    add(repository, child, "child", server.of("child"))
    (repository.folder / ".gitmodules").write_text("[submodule\n")
    repository.git("add", ".gitmodules")
    repository.git("commit", "--quiet", "--message", "broken")
    with pytest.raises(Invalid, match=r"its file \.gitmodules has no address for it"):
        await fetch(GitSource(server.of("network")))


async def test_settings_that_come_with_a_source_do_not_run_anything(
    server: GitHttps, repository: Repository, child: Repository, fetch: Fetches, tmp_path: Path
) -> None:
    """`update = !command` and filters are how a repository ran commands of its own in the past."""
    marker = tmp_path / "marker"
    add(repository, child, "child", server.of("child"))
    with open(repository.folder / ".gitmodules", "a") as file:
        file.write(
            f"\tupdate = !touch {marker}\n\tfetchRecurseSubmodules = true\n[core]\n\tfsmonitor = touch {marker}\n"
        )
    (repository.folder / ".gitattributes").write_text("*.tf filter=evil diff=evil\n")
    (repository.folder / ".gitconfig").write_text(f'[filter "evil"]\n\tsmudge = touch {marker}\n\trequired = true\n')
    repository.git("add", "--all", ".gitmodules", ".gitattributes", ".gitconfig")
    repository.git("commit", "--quiet", "--message", "settings")
    home = Path(fetch.context.environment["HOME"])
    (home / ".gitconfig").write_text(f'[filter "evil"]\n\tsmudge = touch {marker}\n\trequired = true\n')
    await fetch(GitSource(server.of("network")))
    assert fetch.files["main.tf"] == MODULE
    assert not marker.exists()


async def test_a_repository_that_contains_itself_ends(
    server: GitHttps, repository: Repository, fetch: Fetches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout, "MAX_SUBMODULES", 3)
    for number in range(5):
        add(repository, repository, f"again-{number}", server.of("network"))
    with pytest.raises(TerracrewError, match="submodules that make more than 3 in this source"):
        await fetch(GitSource(server.of("network")))

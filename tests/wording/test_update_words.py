"""A person copies the command that updates a runner: it is exact for an honest runner, and nothing that a hostile one wrote is in it."""

import re
import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from terracrew.protocol.messages import Installation
from terracrew.wording.update_words import by_hand

pytestmark = pytest.mark.feature("V2.by-hand")
KINDS = ("pip", "pipx", "uv", "systemd", "container", "helm", "source", "server", "", "new-kind")
HOSTILE = (
    "/opt/x; rm -rf /",
    "/opt/$(id)",
    "/opt/`id`",
    "/opt/x\nid",
    "/opt/x\x1b[2J",
    "/opt/'x",
    '/opt/"x',
    "/opt/x y",
    "/opt/\u202ex",
    "/opt/\u0455ystem",
    "/opt/../tmp/x",
    "/opt/./x",
    "/tmp/x",
    "/var/tmp/x",
    "/dev/shm/x",
    "/proc/self/cwd",
    "./x",
    "--index-url=http://evil",
    "-rf",
    "x|id.service",
    "--force.service",
    "\u0430.service",
    "a.service\n",
    "registry.example/x:1;id",
    "registry.example/x:$(id)",
    "registry.example/X Y",
    "name --post-renderer=/tmp/x",
    "name\u2028",
    "Name",
    "x" * 5_000,
    "",
)


@pytest.mark.parametrize(
    ("installation", "command"),
    [
        (
            Installation("pip", "/opt/terracrew"),
            "/opt/terracrew/bin/python -m pip install --upgrade 'terracrew==0.1.0rc2'",
        ),
        (
            Installation("pip", "/home/jo/.venvs/terracrew-3.11"),
            "/home/jo/.venvs/terracrew-3.11/bin/python -m pip install --upgrade 'terracrew==0.1.0rc2'",
        ),
        (
            Installation("systemd", "/opt/terracrew", "terracrew-runner@1.service"),
            "/opt/terracrew/bin/python -m pip install --upgrade 'terracrew==0.1.0rc2'"
            " && systemctl restart terracrew-runner@1.service",
        ),
        (Installation("pipx", "/root/.local/share/pipx/venvs/x"), "pipx install --force 'terracrew==0.1.0rc2'"),
        (Installation("uv", "/root/.local/share/uv/tools/x"), "uv tool install --force 'terracrew==0.1.0rc2'"),
        (
            Installation("container", "registry.example:5000/crew/terracrew-runner:0.1.0-rc.1@sha256:" + "a" * 64),
            "docker pull registry.example:5000/crew/terracrew-runner:0.1.0-rc.2",
        ),
        (
            Installation("helm", "crew", "infra"),
            "helm upgrade crew deploy/helm/terracrew-runner --namespace infra --reuse-values --set image.tag=0.1.0-rc.2",
        ),
        (Installation("server"), ""),
        (Installation("source", "/src"), ""),
        (Installation(), ""),
    ],
)
def test_the_command_is_exact_for_the_machine(installation: Installation, command: str) -> None:
    found = by_hand(installation, "0.1.0-rc.2")
    assert found.command == command
    assert found.reason


def test_the_image_of_the_release_is_pulled_if_it_has_one() -> None:
    own = "registry.example/terracrew-runner:0.1.0-rc.2@sha256:" + "b" * 64
    assert by_hand(Installation("container", "old:1"), "0.1.0-rc.2", own).command == f"docker pull {own}"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_hostile_gets_into_the_command_or_the_reason(kind: str) -> None:
    harmless = by_hand(Installation(kind), "0.1.0-rc.2")
    for hostile in HOSTILE:
        for place, detail in ((hostile, ""), ("", hostile), (hostile, hostile)):
            assert by_hand(Installation(kind, place, detail), "0.1.0-rc.2") == harmless, repr(hostile)


@given(st.sampled_from(KINDS), st.text(max_size=40), st.text(max_size=40))
@example("systemd", "/opt/a", "a.service && id")
@example("pip", "/opt/a\n", "")
def test_a_command_is_one_line_of_plain_words_whatever_a_runner_says(kind: str, place: str, detail: str) -> None:
    found = by_hand(Installation(kind, place, detail), "0.1.0-rc.2")
    assert re.fullmatch(r"[A-Za-z0-9 '=./:@_+&-]*", found.command), found.command
    words = shlex.split(found.command, comments=True)
    assert words.count("&&") == found.command.count("&") // 2 <= 1
    assert not any(each.startswith("-") for each in (place, detail) if each and each in words)
    assert found.reason.isprintable()


def test_a_version_that_packages_of_python_cannot_have_gets_no_command_of_pip() -> None:
    for kind in ("pip", "pipx", "uv", "systemd"):
        found = by_hand(Installation(kind, "/opt/x", "x.service"), "0.1.0-nightly.7")
        assert (found.command, "0.1.0-nightly.7" in found.reason) == ("", True)

"""Git is given https and ssh addresses only, and nothing that it could take for an option or a command."""

import pytest

from terracrew.errors import Invalid
from terracrew.protocol.spec import GitSource
from terracrew.source_rules import git

pytestmark = pytest.mark.feature("J5.git")


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/network.git",
        "https://ada@git.example.com:8443/a/b/c",
        "https://dev.azure.com/acme/My%20Project/_git/repo",
        "ssh://git@git.example.com:2222/acme/network.git",
        "ssh://git@[::1]/~ada/network.git",
        "git@github.com:acme/network.git",
        "git.example.com:network",
        "https://127.0.0.1/x",
    ],
)
def test_https_ssh_and_the_short_form_of_ssh_are_allowed(url: str) -> None:
    git.check(GitSource(url))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "network",
        "/srv/git/network",
        "./network",
        "../network",
        "file:///srv/git/network",
        "http://github.com/acme/network",
        "git://github.com/acme/network",
        "ext::sh -c touch% /tmp/x",
        "ext::sh",
        "fd::17/foo",
        "https::https://x/y",
        "--upload-pack=touch /tmp/x",
        "-oProxyCommand=touch:x",
        "ssh://-oProxyCommand=touch/x",
        "ssh://git@-oProxyCommand=touch/x",
        "git@-oProxyCommand=touch:x",
        "git@host:-x",
        "git@host::x",
        "https://-x/y",
        "https://host",
        "https://host/",
        "https://host/a b",
        "https://host/a\n",
        "https://host/a\u202e",
        "https://host/a?x=1",
        "https://host/a#x",
        "https://host/a;touch x",
        "https://host/a'x",
        "https://host/`x`",
        "https://host/$(x)",
        "https://host/a/../b",
        "https://host:99999999/a",
        "HTTPS://host/a",
        "C:\\git\\network",
        "https://host/" + "a" * 2000,
    ],
)
def test_every_other_address_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match=r"source\.url: "):
        git.check(GitSource(url))


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(Invalid, match="has a password in it") as caught:
        git.check(GitSource("https://ada:hunter2@host/x"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("field", ["branch", "tag"])
@pytest.mark.parametrize(
    "name",
    [
        *(
            "-x",
            "--upload-pack=x",
            "a..b",
            "a b",
            "a~1",
            "a^{}",
            "a:b",
            "a?",
            "a*",
            "a[b",
            "a\\b",
            "a\nb",
            "a//b",
            "/a",
            "a/",
        ),
        *(".a", "a/.b", "a.", "a.lock", "a.lock/b", "@", "a@{b", "a\x7f", "a\u202eb", "a" * 241),
    ],
)
def test_what_git_does_not_accept_as_a_branch_or_a_tag_is_refused(field: str, name: str) -> None:
    with pytest.raises(Invalid, match=f"source.{field}: "):
        git.check(GitSource("https://host/x", **{field: name}))


@pytest.mark.parametrize("name", ["main", "feature/x-1", "v1.2.0", "refs/heads/main", "übung", "a@b", "@a", "a-"])
def test_ordinary_names_are_branches_and_tags(name: str) -> None:
    git.check(GitSource("https://host/x", branch=name))
    git.check(GitSource("https://host/x", tag=name))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"branch": "main", "tag": "v1"}, "branch and tag are given"),
        ({"commit": "abc123"}, "is not a whole commit id"),
        ({"commit": "A" * 40}, "is not a whole commit id"),
        ({"commit": "--output=x"}, "is not a whole commit id"),
        ({"commit": "a" * 41}, "is not a whole commit id"),
        ({"version": "latest"}, "source.version: 'latest' is not a range of versions"),
        ({"version": "--x"}, "source.version: "),
        ({"credential": "A-B"}, "source.credential: 'A-B' is not the name of an environment variable"),
        ({"known_hosts": "host ssh-rsa AAAA"}, "source.known_hosts: host keys are used with an ssh address"),
        (
            {"url": "git@host:x", "credential": "KEY"},
            "source.known_hosts: a private key is used only with the host keys",
        ),
        ({"url": "git@host:x", "credential": "KEY", "known_hosts": "# none"}, "a private key is used only with"),
        ({"url": "git@host:x", "credential": "KEY", "known_hosts": "x" * 20_001}, "at most 20,000 characters"),
    ],
)
def test_a_source_has_one_revision_that_makes_sense(fields: dict[str, str], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        git.check(GitSource(**{"url": "https://host/x"} | fields))


@pytest.mark.parametrize(
    ("parent", "url", "whole"),
    [
        ("https://host/a/b.git", "../c.git", "https://host/a/c.git"),
        ("https://host/a/b", "./c", "https://host/a/b/c"),
        ("https://host/a/b/", "../../c/d", "https://host/c/d"),
        ("git@host:a/b.git", "../c.git", "git@host:a/c.git"),
        ("git@host:b.git", "../c.git", "git@host:c.git"),
        ("git@host:/srv/b.git", "../c.git", "git@host:/srv/c.git"),
        ("https://host/a", "https://other/b", "https://other/b"),
        ("https://host/a", "ext::sh", "ext::sh"),
    ],
)
def test_the_relative_address_of_a_submodule_begins_at_its_parent(parent: str, url: str, whole: str) -> None:
    assert git.url_below(parent, url) == whole


@pytest.mark.parametrize("url", ["../../../../../etc", "../../../../x::y", "../../../file:///etc", "./-x/../.."])
def test_a_relative_address_does_not_lead_to_something_that_is_not_allowed(url: str) -> None:
    whole = git.url_below("https://host/a/b", url)
    assert git.url_problem(whole) or git.host(whole) == "host"

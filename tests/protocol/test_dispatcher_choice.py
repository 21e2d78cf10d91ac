"""What a job asks of a dispatcher, and what a dispatcher allows."""

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.protocol import dispatcher_choice
from terracrew.protocol.dispatcher_choice import NO_CHOICE, AllowedChoices, DispatcherChoice, OfferedDispatcher

pytestmark = pytest.mark.feature("D1.allowed")

_LIMITS = AllowedChoices(["registry.example/team/*", "executor-*"], 2048, 2.0, ["deploy-*"])


@pytest.mark.parametrize(
    ("text", "pattern", "fits"),
    [
        ("registry.example/team/app:1", "registry.example/team/*", True),
        ("registry.example/team/sub/app:1", "registry.example/team/*", False),
        ("registry.example/team/sub/app:1", "registry.example/team/**", True),
        ("registry.example/team", "registry.example/team/**", False),
        ("registry.example/teams/app", "registry.example/team/**", False),
        ("executor-x.example/evil", "executor-*", False),
        ("executor-x.example:5000/evil", "executor-*", False),
        ("executor-1:2", "executor-*", True),
        ("executor-1", "executor-1", True),
        ("executor-10", "executor-1", False),
        ("Executor-1", "executor-1", False),
        ("anything/at/all", "**", True),
        ("anything/at/all", "*", False),
    ],
)
def test_a_star_stops_at_a_slash(text: str, pattern: str, fits: bool) -> None:
    assert dispatcher_choice.matches(text, [pattern]) is fits


def test_a_pattern_of_many_stars_is_matched_in_no_time() -> None:
    """A runner sends its patterns to the server: none may hold the server up."""
    began = time.monotonic()
    assert not dispatcher_choice.matches("a" * 300, ["*a" * 149 + "b"])
    assert time.monotonic() - began < 1.0


@pytest.mark.parametrize(
    "image", ["", "../x", "registry//x", "a b", "-x", "x\n", "https:$x", "registry.example/../other/x", "a" * 301]
)
def test_an_image_that_no_registry_has_is_refused(image: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"image": image}, DispatcherChoice)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (DispatcherChoice(image="evil/image"), ["the image evil/image (allowed: registry.example/team/*, executor-*)"]),
        (DispatcherChoice(memory_mb=2049), ["2049 MB of memory (allowed: up to 2048 MB)"]),
        (DispatcherChoice(cpu=2.5), ["2.5 processors (allowed: up to 2)"]),
        (DispatcherChoice(service_account="admin"), ["the service account admin (allowed: deploy-*)"]),
        (DispatcherChoice(None, "executor-1", 2048, 2.0, "deploy-a"), []),
    ],
)
def test_what_is_not_allowed_is_said_with_what_is(choice: DispatcherChoice, words: list[str]) -> None:
    assert dispatcher_choice.objections(choice, _LIMITS) == words


def test_a_dispatcher_without_an_allow_list_allows_nothing() -> None:
    for choice in (DispatcherChoice(image="x"), DispatcherChoice(memory_mb=64), DispatcherChoice(cpu=0.1)):
        assert len(dispatcher_choice.refused(choice, AllowedChoices())) == 1
    assert dispatcher_choice.objections(DispatcherChoice(cpu=0.1), AllowedChoices()) == [
        "0.1 processors (allowed: none)"
    ]
    assert dispatcher_choice.refused(NO_CHOICE, AllowedChoices()) == []


def test_a_name_comes_before_a_type() -> None:
    offers = [OfferedDispatcher("default", "docker"), OfferedDispatcher("docker", "docker")]
    assert dispatcher_choice.find(DispatcherChoice("docker"), offers) == offers[1]
    assert dispatcher_choice.find(DispatcherChoice("docker"), offers[:1]) == offers[0]
    assert dispatcher_choice.find(NO_CHOICE, offers) == offers[0]
    assert dispatcher_choice.find(DispatcherChoice("local"), offers) is None


_ITEMS = ["a", "b", "a/b", "a/c", "b/c"]
_PATTERNS = ["*", "**", "a/*", "a", "b/**", "?/c"]
_choices = st.builds(
    DispatcherChoice,
    st.sampled_from([None, "default", "one", "two", "local", "docker"]),
    st.sampled_from([None, *_ITEMS]),
    st.sampled_from([None, 64, 128, 256]),
    st.sampled_from([None, 0.5, 1.0, 2.0]),
    st.sampled_from([None, *_ITEMS]),
)
_allowed = st.builds(
    AllowedChoices,
    st.lists(st.sampled_from(_PATTERNS), max_size=2),
    st.sampled_from([None, 64, 128]),
    st.sampled_from([None, 0.5, 1.0]),
    st.lists(st.sampled_from(_PATTERNS), max_size=2),
)
_offers = st.lists(
    st.builds(
        OfferedDispatcher, st.sampled_from(["default", "one", "two"]), st.sampled_from(["local", "docker"]), _allowed
    ),
    max_size=3,
    unique_by=lambda each: each.name,
)


@given(_choices, _offers)
def test_a_dispatcher_that_was_found_is_the_wanted_one_and_allows_everything(
    choice: DispatcherChoice, offers: list[OfferedDispatcher]
) -> None:
    found = dispatcher_choice.find(choice, offers)
    if found is None:
        wanted = dispatcher_choice.named(choice.name, offers)
        assert all(dispatcher_choice.objections(choice, each.allows) for each in wanted)
        return
    assert (choice.name or "default") in (found.name, found.type)
    assert choice.image is None or dispatcher_choice.matches(choice.image, found.allows.images)
    assert choice.memory_mb is None or choice.memory_mb <= (found.allows.max_memory_mb or 0)
    assert choice.cpu is None or choice.cpu <= (found.allows.max_cpu or 0)
    assert choice.service_account is None or dispatcher_choice.matches(
        choice.service_account, found.allows.service_accounts
    )

"""What we know of each engine: its default version, where it is released and how its Go module is built."""

import re

from msgspec import Struct

from terracrew.errors import EngineMissing, Invalid

_NUMBERS = re.compile(r"(\d+)\.(\d+)")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?")


class EngineRelease(Struct, frozen=True):
    """A released zip archive, its file of SHA-256 sums, and the signatures of that file, of which the first one that exists is
    used. The names are templates with {version}, {os} and {arch}."""

    base: str
    folder: str
    archive: str
    sums: str
    signatures: tuple[str, ...]
    publisher: str
    """Whose key signs the file of sums; see `signatures/`."""


class GoProgram(Struct, frozen=True):
    """One main package of a Go module. Its texts are templates with {version}, which is the engine's version."""

    module: str
    package: str
    binary: str
    version: str = "{version}"
    variables: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


class Spec(Struct, frozen=True):
    """An engine. The first program is the engine itself; the engine needs the others beside it."""

    name: str
    title: str
    version: str
    go: str
    programs: tuple[GoProgram, ...]
    oldest: tuple[int, int] = (0, 0)
    """The oldest version that has every option and variable that Terracrew uses."""
    ask: tuple[str, ...] = ("version", "-json")
    release: EngineRelease | None = None
    newest: str | None = None
    newest_because: str = ""


TOFU = Spec(
    name="tofu",
    title="OpenTofu",
    version="1.12.6",
    go="1.26.6",
    oldest=(1, 12),
    programs=(
        GoProgram(
            module="github.com/opentofu/opentofu",
            package="./cmd/tofu",
            binary="tofu",
            variables=("github.com/opentofu/opentofu/version.dev=no",),
        ),
    ),
    release=EngineRelease(
        base="https://github.com/opentofu/opentofu/releases/download",
        folder="v{version}",
        archive="tofu_{version}_{os}_{arch}.zip",
        sums="tofu_{version}_SHA256SUMS",
        signatures=("tofu_{version}_SHA256SUMS.gpgsig",),
        publisher="opentofu",
    ),
)
TERRAFORM = Spec(
    name="terraform",
    title="Terraform",
    version="1.5.7",
    go="1.18",
    oldest=(1, 4),
    programs=(
        GoProgram(
            module="github.com/hashicorp/terraform",
            package=".",
            binary="terraform",
            variables=("github.com/hashicorp/terraform/version.dev=no",),
        ),
    ),
    release=EngineRelease(
        base="https://releases.hashicorp.com/terraform",
        folder="{version}",
        archive="terraform_{version}_{os}_{arch}.zip",
        sums="terraform_{version}_SHA256SUMS",
        signatures=("terraform_{version}_SHA256SUMS.72D7468F.sig", "terraform_{version}_SHA256SUMS.sig"),
        publisher="hashicorp",
    ),
    newest="1.5.7",
    newest_because="1.5.7 is the last release under the MPL; a later one that you installed yourself is found on PATH",
)
PULUMI = Spec(
    name="pulumi",
    title="Pulumi",
    version="3.255.0",
    go="1.25.11",
    oldest=(3, 200),
    ask=("version",),
    programs=(
        GoProgram(
            module="github.com/pulumi/pulumi/pkg/v3",
            package="./cmd/pulumi",
            binary="pulumi",
            variables=("github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v{version}",),
            # Its go.mod points at a sibling directory of the repository, which a module archive does not have.
            edits=(
                "-dropreplace=github.com/pulumi/pulumi/sdk/v3",
                "-require=github.com/pulumi/pulumi/sdk/v3@v{version}",
            ),
            flags=("-mod=mod",),
        ),
        GoProgram(
            module="github.com/pulumi/pulumi-yaml",
            package="./cmd/pulumi-language-yaml",
            binary="pulumi-language-yaml",
            version="1.32.0",
            variables=("github.com/pulumi/pulumi-yaml/pkg/version.Version=v1.32.0",),
        ),
    ),
)
ENGINES = {spec.name: spec for spec in (TOFU, TERRAFORM, PULUMI)}


def get(engine: str) -> Spec:
    """Return the engine of this name, or raise an error that lists the known engines."""
    if engine not in ENGINES:
        raise Invalid(f"{engine!r} is not the name of an engine: use one of {', '.join(ENGINES)}")
    return ENGINES[engine]


def order(version: str) -> tuple[int, int, int, bool, str]:
    """Return a key that sorts versions, a pre-release before its release. A text that is not a version is an error."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise Invalid(f"{version!r} is not a version: expected three numbers, like 1.12.6")
    major, minor, patch, pre = match.groups()
    return int(major), int(minor), int(patch), pre is None, pre or ""


def is_too_old(spec: Spec, version: str) -> bool:
    """Return whether Terracrew cannot use this version of an engine."""
    match = _NUMBERS.match(version)
    return match is not None and (int(match[1]), int(match[2])) < spec.oldest


def too_old(spec: Spec, version: str, path: str) -> EngineMissing:
    """Return the error for a job whose engine is too old."""
    oldest = ".".join(map(str, spec.oldest))
    return EngineMissing(
        f"{spec.title} {version} at {path} is too old: {oldest} or later is needed. "
        f"Install one: terracrew engine install {spec.name}"
    )


def wanted(spec: Spec, version: str | None) -> str:
    """Return the version to install: the default, or the one asked for if we may install it."""
    if version is None:
        return spec.version
    version = version.removeprefix("v")
    if spec.newest and order(version) > order(spec.newest):
        raise Invalid(f"{spec.title} {version} is not installed by Terracrew: {spec.newest_because}")
    order(version)
    return version

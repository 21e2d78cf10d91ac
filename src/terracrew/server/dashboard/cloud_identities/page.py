"""What the pages of cloud identities show, and how they read it."""

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from terracrew.api.cloud_identities import (
    CloudKind,
    IdentityReport,
    IdentityView,
    PolicyDocument,
    ReportedResource,
    Way,
)
from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus, FleetJobType, FleetJobView, FleetStep
from terracrew.server.cloud_hosted import identity_views, reporting
from terracrew.server.cloud_identities import service
from terracrew.server.dashboard import forms
from terracrew.server.dashboard.badges import Badge
from terracrew.server.db.seam import Tx
from terracrew.server.fleet_jobs import reads as fleet_reads
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.fleet_jobs.reads import FleetJobFilter
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal

PAGE_ROWS = 50
KINDS: dict[CloudKind, str] = {"aws": "AWS", "kubernetes": "Kubernetes"}
WAYS: dict[Way, str] = {"web_identity": "Web identity", "workload": "The server's own workload"}
_ACTION = re.compile(r"\b[a-z][a-z0-9-]*:[A-Z][A-Za-z]+\b")
"""A permission of AWS, such as `iam:PassRole`."""
_TRUST_STEPS = frozenset({"sign_in", "others"})
"""The checks that a right trust policy mends."""


class IdentitiesPage(msgspec.Struct, frozen=True):
    identities: list[IdentityView]
    next: str | None
    groups: list[str]
    """The paths of the groups in which the reader may create an identity."""


class PolicyLine(msgspec.Struct, frozen=True):
    text: str
    mark: Literal["", "subject", "missing"] = ""
    """Whether it has what belongs to this identity alone, or a permission that the account lacks."""
    anchor: str = ""
    """The id of the first line of a statement that lacks a permission."""


class ShownDocument(msgspec.Struct, frozen=True):
    document: PolicyDocument
    lines: list[PolicyLine]


class ShownFailure(msgspec.Struct, frozen=True):
    step: FleetStep
    paste: str
    """The name of the text that mends it; empty if no text does."""

    @property
    def anchor(self) -> str:
        """The id of the line in that text that is missing in the account."""
        return f"missing-{self.step.name}" if self.paste == "permissions" else ""


class ShownTest(msgspec.Struct, frozen=True):
    """The last test of a connection. What has failed is shown first."""

    job: FleetJobView
    failed: list[ShownFailure]
    others: list[FleetStep]
    passed: int
    passed_before: FleetJob | None
    """The last test that passed, if this one has failed."""

    @property
    def count(self) -> int:
        return len(self.failed) + len(self.others)


class OwnedResources(msgspec.Struct, frozen=True):
    runner: str
    resources: list[ReportedResource]


class IdentityPage(msgspec.Struct, frozen=True, kw_only=True):
    identity: IdentityView
    badge: Badge
    test: ShownTest | None
    documents: list[ShownDocument]
    formats: list[tuple[str, str]]
    """The forms in which the texts can be shown: a value and its word."""
    shown_format: str
    report: IdentityReport
    lost: list[ReportedResource]
    owned: list[OwnedResources]
    may_change: bool
    may_use: bool


async def read_list(tx: Tx, who: Principal, issuer: str, after: str | None) -> IdentitiesPage:
    found = await identity_views.listing(tx, who, issuer, None, after, PAGE_ROWS)
    return IdentitiesPage(found.items, found.next, await forms.offer_groups(tx, who, Verb.ACCESS_WRITE))


async def read_one(tx: Tx, who: Principal, reference: str, issuer: str, shown_format: str) -> IdentityPage:
    record = await service.find(tx, who, reference)
    identity = await identity_views.view(tx, record, issuer)
    test = None if identity.last_test is None else await _test(tx, who, identity.last_test)
    policies = await identity_views.policies_of(tx, record, issuer)
    report = await reporting.of_record(tx, record)
    place = service.place(record)
    allowed = await authorize.visible_by_verb(tx, who, Verb.ACCESS_WRITE, Verb.RUNNER_WRITE)
    formats = [("json", "JSON"), ("opentofu", "OpenTofu")] if identity.kind == "aws" else []
    chosen = shown_format if shown_format in dict(formats) else "json"
    missing = {} if test is None else _missing(test.failed)
    return IdentityPage(
        identity=identity,
        badge=badge_of_test(identity.last_test, len(test.failed) if test else 0),
        test=test,
        documents=[
            _shown(each, identity, missing)
            for each in policies.documents
            if not formats or (each.name == "opentofu") == (chosen == "opentofu")
        ],
        formats=formats,
        shown_format=chosen,
        report=report,
        lost=[each for each in report.resources if each.owner != "runner"],
        owned=_by_runner(report.resources),
        may_change=allowed[Verb.ACCESS_WRITE].covers(place),
        may_use=allowed[Verb.RUNNER_WRITE].covers(place),
    )


async def _test(tx: Tx, who: Principal, job: FleetJob) -> ShownTest:
    view = await fleet_jobs.view(tx, job)
    failed = [ShownFailure(each, _paste(each)) for each in view.steps if each.status == "failed"]
    passed_before = None
    if job.status is FleetJobStatus.FAILED:
        wanted = FleetJobFilter(FleetJobType.CONNECTION_TEST, FleetJobStatus.SUCCEEDED, job.target_id)
        seen = await authorize.visible(tx, who, Verb.RUNNER_READ)
        passed_before = next(iter(await fleet_reads.listing(tx, seen, job.organization_id, wanted, "", 1)), None)
    return ShownTest(
        view,
        failed,
        [each for each in view.steps if each.status != "failed"],
        sum(each.status == "done" for each in view.steps),
        passed_before,
    )


def _paste(step: FleetStep) -> str:
    if step.name in _TRUST_STEPS:
        return "trust"
    return "permissions" if step.name.startswith("may_") else ""


def _missing(failed: Sequence[ShownFailure]) -> dict[str, set[str]]:
    """Return which permissions are missing, by the statement that has them."""
    return {
        each.step.name.removeprefix("may_"): set(_ACTION.findall(each.step.detail))
        for each in failed
        if each.paste == "permissions"
    }


def _shown(document: PolicyDocument, identity: IdentityView, missing: dict[str, set[str]]) -> ShownDocument:
    """Return a text by its lines, with marks on what belongs to this identity alone and on what the account lacks."""
    own = identity.external_id if identity.way == "workload" and identity.kind == "aws" else identity.subject
    lines: list[PolicyLine] = []
    statement, anchored = "", set[str]()
    for text in document.text.rstrip("\n").split("\n"):
        if found := re.search(r'\bSid"?\s*[:=]\s*"(\w+)"', text):
            statement = found[1]
        is_missing = document.name != "trust" and any(f'"{each}"' in text for each in missing.get(statement, ()))
        anchor = f"missing-may_{statement}" if is_missing and statement not in anchored else ""
        if is_missing:
            anchored.add(statement)
        lines.append(PolicyLine(text, "missing" if is_missing else "subject" if own in text else "", anchor))
    return ShownDocument(document, lines)


def _by_runner(resources: Sequence[ReportedResource]) -> list[OwnedResources]:
    found: dict[str, list[ReportedResource]] = {}
    for each in resources:
        if each.owner == "runner":
            found.setdefault(each.runner, []).append(each)
    return [OwnedResources(runner, owned) for runner, owned in sorted(found.items())]


def badge_of_test(job: FleetJob | None, failed: int = 0) -> Badge:
    """Return how the last test ended. A list does not know how many checks have failed."""
    if job is None:
        return Badge("idle", "slash", "Not tested")
    if not job.is_terminal:
        return Badge("busy", "arc" if job.is_active else "clock", "Testing")
    if job.status is FleetJobStatus.SUCCEEDED:
        return Badge("ok", "tick", "Test passed")
    if job.status is FleetJobStatus.CANCELED:
        return Badge("idle", "slash", "Test canceled")
    return Badge("warn", "mark", f"{failed} check{'' if failed == 1 else 's'} failed" if failed else "Test failed")

"""The settings that groups and modules have in common."""

from typing import Annotated, Literal

import msgspec

from terracrew.api import fields
from terracrew.api.fields import Field
from terracrew.api.pull_requests import PullRequestApply
from terracrew.protocol.cloud import CloudIdentities
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.protocol.spec import JobLimits

Interrupted = Literal["ask", "retry"]
"""What follows an interrupted change: `ask` a person before anything is changed again, or `retry` because a repetition is harmless."""
MaxDestroy = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
MaxDestroyPercent = Annotated[int, msgspec.Meta(ge=0, le=100)]
MinApprovals = Annotated[int, msgspec.Meta(ge=1, le=20)]
Description = Annotated[str, msgspec.Meta(max_length=2000)]
PlaceKind = Literal["group", "module"]


class PlaceChoice(DispatcherChoice, frozen=True):
    """What a place says. A field that is None is left to the places above it, and to the dispatcher if none of them has one."""

    inherits: Annotated[bool, Field(label="Inherit from the groups above", option="--inherit-dispatcher")] = True
    """Whether what the groups above ask of a dispatcher applies as well; otherwise a field without a value is left to the dispatcher."""

    def __bool__(self) -> bool:
        return self != NOTHING_CHOSEN


NOTHING_CHOSEN = PlaceChoice()


@fields.change
class LimitsChange(JobLimits, frozen=True, kw_only=True):
    """Which limits to change; what is left out stays, and null removes a limit. Steps that are left out keep their limits."""


@fields.change
class CloudChange(CloudIdentities, frozen=True, kw_only=True):
    """Which identities to change. One is replaced as a whole; what is left out stays, and null removes it, so that the one of the
    nearest group above applies."""


@fields.change
class DispatcherChange(PlaceChoice, frozen=True, kw_only=True):
    """What to change; what is left out stays, and null removes it, so that the one of the nearest group above applies."""


class PullRequestSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What happens with pull requests that touch a module. Of each field, the nearest place that says something decides."""

    pull_request_plans: Annotated[
        bool | None, Field(label="Plan pull requests", null="inherit", section="pull_requests")
    ] = None
    """Whether pull requests that touch the module are planned, if a connection to their forge serves it. Of the module and the groups
    above, the nearest that says something decides; without any, they are planned."""
    pull_request_apply: Annotated[
        PullRequestApply | None, Field(label="Apply pull requests", null="inherit", section="pull_requests")
    ] = None
    """What applies a pull request: nothing by itself (`never`), the merge (`on_merge`), a comment or a click (`on_command`), or a
    comment or a click, after which Terracrew merges it (`on_command_then_merge`). Every apply needs the same approvals as any other
    one. The nearest place that says something decides; without any, `never`."""
    forge_approvals: Annotated[
        bool | None, Field(label="Approvals of the forge count", null="inherit", section="pull_requests")
    ] = None
    """Whether the approval of a pull request on the forge counts as an approval of its plan here, if the user of the forge is linked
    to a user who may give it. The nearest place that says something decides; without any, it does not."""


class PlaceSettings(PullRequestSettings, frozen=True, kw_only=True):
    description: Annotated[Description, Field(section="general", is_long=True, is_searched=True)] = ""
    """What it is for, shown beside its name."""
    interrupted: Annotated[
        Interrupted | None,
        Field(label="After a change that was cut short", null="inherit", section="approval", merge="smallest"),
    ] = None
    """What follows a change that was cut short: `ask` a person before anything is changed again, or `retry`. If one place from the
    organization down says `ask`, that applies; without a rule anywhere, too. Null adds no rule."""
    max_destroy: Annotated[
        MaxDestroy | None,
        Field(
            label="Resources destroyed without approval",
            null="inherit",
            section="approval",
            metavar="N",
            merge="smallest",
        ),
    ] = None
    """How many resources an APPLY may destroy (or replace) without an approval. The smallest number of all places from the
    organization down applies; null adds no limit. Destroying everything always needs an approval."""
    max_destroy_percent: Annotated[
        MaxDestroyPercent | None,
        Field(
            label="Share destroyed without approval",
            null="inherit",
            section="approval",
            metavar="N",
            unit="percent",
            merge="smallest",
        ),
    ] = None
    """The same as a percentage of the resources that exist."""
    min_approvals: Annotated[
        MinApprovals | None, Field(label="Approvals needed", section="approval", metavar="N", merge="largest")
    ] = None
    """How many different people must approve each plan of an APPLY or DESTROY. The largest number of all places from the
    organization down applies; null adds no requirement."""
    limits: Annotated[JobLimits, Field(section="limits")] = msgspec.field(default_factory=JobLimits)
    """How long jobs may run, and what they may use. The smallest limit of all places from the organization down and of the job
    applies; for `plan_retries`, the nearest."""
    cloud: Annotated[CloudIdentities, Field(label="Cloud logins", section="cloud")] = msgspec.field(
        default_factory=CloudIdentities
    )
    """As whom jobs log in to clouds. For each cloud, the nearest place that has an identity decides."""
    dispatcher: Annotated[PlaceChoice, Field(section="dispatcher")] = msgspec.field(default_factory=PlaceChoice)
    """What jobs ask of the dispatcher of their runner. Of each field, the nearest place that says something decides."""

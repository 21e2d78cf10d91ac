"""What the page of one job shows."""

import msgspec

from terracrew.api.groups import ApprovalRule
from terracrew.api.job_views import AttemptReport, JobView
from terracrew.api.jobs import Job, JobStatus, StepRow
from terracrew.api.lost_resources import LostResources
from terracrew.errors import Undecryptable
from terracrew.protocol.events import Output, ResourceChange
from terracrew.protocol.spec import MUTATING, STEPS_OF, JobType, Step
from terracrew.server.dashboard import badges, words
from terracrew.server.dashboard.badges import Badge
from terracrew.server.dashboard.jobs import timeline
from terracrew.server.dashboard.jobs.timeline import TimelinePart
from terracrew.server.dashboard.modules import states
from terracrew.server.dashboard.modules.states import QuarantineRow
from terracrew.server.db.seam import Row, Tx
from terracrew.server.group_runs import service as group_runs
from terracrew.server.jobs import reads, service
from terracrew.server.jobs.plans import approver_rules, approvers
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import attempt_report
from terracrew.server.runs.log import LogEnd
from terracrew.server.runs.reasons import Watch
from terracrew.server.runs.view import read as read_view
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import reads as state_reads
from terracrew.server.state.service import outputs_checksum, outputs_context
from terracrew.server.terminals import store as terminal_store
from terracrew.server.terminals.model import TerminalRun
from terracrew.server.tree.modules import policy
from terracrew.wording import approval_words, plan_words


class OutputRow(msgspec.Struct, frozen=True):
    name: str
    text: str | None
    """None if the output is sensitive: its value is never sent to a page."""


class JobPage(msgspec.Struct, frozen=True):
    view: JobView
    started_by: str
    runners: dict[int, str]
    """Attempt → names of its runner and instance."""
    outputs: list[OutputRow] | None
    outputs_checksum: str
    may_cancel: bool
    may_run: bool
    may_approve: bool
    shown: int | None
    """The attempt whose log is shown; None shows the log of all attempts."""
    lost: AttemptReport | None
    """The current attempt, if it is lost in the middle of a change."""
    quarantine: list[QuarantineRow]
    rules: tuple[ApprovalRule, ...] = ()
    """The approval rules that apply to its module; none if the job has ended or changes nothing."""
    approval_refusal: str | None = None
    """Why the reader may not approve, although their role would let them."""
    prompt: TerminalRun | None = None
    """What was asked for beside the job, if the engine's own command line has started it."""
    log_end: LogEnd | None = None
    """Where the part of a long log begins that is shown; None if all of it is shown."""
    timeline: list[TimelinePart] = []
    run_address: str | None = None
    """The page of the run of a group that the job is a part of, if the reader may see the group."""
    before_apply: str = ""
    """Who else is asked before the plan of a PLAN job is applied, in words."""
    lost_resources: LostResources | None = None
    """What the job may have lost; None if none of its attempts was cut short."""

    @property
    def is_in_doubt(self) -> bool:
        """Return whether the module is in doubt, because of an attempt or since the database was set back."""
        return self.view.is_in_doubt

    @property
    def approvals(self) -> tuple[int, int]:
        """Return how many approvals of the plan that waits count, and how many it needs."""
        return self.view.approval_count

    @property
    def approve_word(self) -> str:
        """Return the text of the button that approves the plan."""
        carry_out = plan_words.carry_out(self.view.plan, self.view.type)
        return approval_words.button(carry_out, *self.approvals, is_in_doubt=self.is_in_doubt)

    @property
    def is_asked(self) -> bool:
        """Return whether its plan waits for a person before anything is changed, as far as that is known before the plan."""
        return self.view.needs_approval or bool(approval_words.approvals(self.rules))

    @property
    def has_waited(self) -> bool:
        """Return whether a person has or had to approve the plan that the job waits or continues with."""
        plan = self.view.kept_plan
        if plan is None or self.view.type is JobType.PLAN:
            return False
        return not plan.is_chosen or plan.decision is None or bool(plan.approvals)

    @property
    def apply_word(self) -> str:
        """Return the text of the button that applies the plan of a PLAN job."""
        return plan_words.apply(self.view.plan, is_destroy_plan=self.view.is_destroy_plan)

    @property
    def is_destructive(self) -> bool:
        return self.view.type is JobType.DESTROY or self.destroy_count > 0

    @property
    def destroy_count(self) -> int:
        """Return how many resources the plan destroys or replaces."""
        return plan_words.destroy_count(self.view.plan)

    @property
    def destroyed(self) -> list[ResourceChange]:
        """Return the resources that the plan destroys or replaces, replacements first."""
        return [each for each in plan_words.in_order(self.view.plan) if each.action in ("replace", "delete")]

    @property
    def step(self) -> Step | None:
        return next((step.name for step in self.view.steps if step.status == "RUNNING"), None)

    @property
    def badge(self) -> Badge:
        job = self.view
        return badges.job_badge(job.status, self.step, is_canceling=job.cancel_mode is not None, reason=job.reason)

    @property
    def has_history(self) -> bool:
        """Return whether the page shows the table of attempts."""
        return len(self.view.attempts) > 1 or bool(self.view.notes) or any(each.lost_at for each in self.view.attempts)

    @property
    def has_panel(self) -> bool:
        """Return whether a panel of its own says why the job waits and what to do about it."""
        return self.lost is not None or bool(self.quarantine) or self.view.status is JobStatus.AWAITING_APPROVAL

    @property
    def may_have_lost(self) -> bool:
        """Return whether an attempt was cut short in the middle of a change."""
        return any(
            each.may_have_changed and not each.is_change_ended and (each.ended_at or each.lost_at)
            for each in self.view.attempts
        )

    @property
    def import_blocks(self) -> str:
        found = [] if self.lost_resources is None else self.lost_resources.items
        return "\n".join(each.import_block for each in found if each.import_block)

    @property
    def is_log_finished(self) -> bool:
        return self.view.is_terminal or self.shown not in (None, self.view.attempt)

    @property
    def endings(self) -> dict[int, str]:
        """Return attempt → how it ended, in words."""
        return {each.attempt: each.text for each in self.view.run}

    @property
    def is_out_of_contact(self) -> bool:
        """Return whether there is no contact with the attempt, so that its current step is not known."""
        return self.view.reason is not None and self.view.reason.code in ("lost", "silent")

    def instead_of_running(self, step: StepRow) -> str:
        statuses: dict[str, str] = {each.name: each.status for each in self.view.steps}
        return plan_words.instead_of_running(step.name, statuses, step.kept_from)


async def read(tx: Tx, who: Principal, name: str, attempt: int | None, keys: Keyring, watch: Watch) -> JobPage:
    job = await service.find(tx, who, name, Verb.JOB_READ)
    view = await read_view(tx, job, watch)
    place = authorize.module(job.organization_id, view.module_path)
    started_by = await reads.started_by(tx, job.id)
    may_approve = await authorize.may(tx, who, Verb.JOB_APPROVE, place)
    is_changing = not job.is_terminal and bool(MUTATING & set(STEPS_OF.get(job.type, ())))
    rules = await policy.of_module(tx, job.module_id) if is_changing else policy.ModulePolicy()
    refusal: str | None = None
    if may_approve and job.status is JobStatus.AWAITING_APPROVAL:
        known = await approvers.read(tx, job, view.kept_plan, rules, place, who.id)
        refusal = approver_rules.refusal(job, who, rules, known.facts, view.kept_plan, view.seen_doubts)
    is_lost = any(each.number == job.attempt and each.ended_at is None and each.lost_at for each in view.attempts)
    runners = await _runners(tx, job.id)
    outputs = await _kept_outputs(tx, who, place, job)
    return JobPage(
        view=view,
        started_by="you" if job.created_by == who.id else started_by,
        prompt=await terminal_store.run(tx, job.id),
        runners=runners,
        rules=rules.rules,
        timeline=await timeline.read(
            tx, view, "you" if job.created_by == who.id else started_by, runners, asks=rules.min_approvals > 0
        ),
        run_address=await _run_address(tx, who, job),
        outputs=_outputs(outputs, job, keys),
        outputs_checksum="" if outputs is None else outputs_checksum(keys, outputs),
        may_cancel=not job.is_terminal and await authorize.may(tx, who, Verb.JOB_CANCEL, place),
        may_run=await authorize.may(tx, who, Verb.JOB_RUN, place),
        may_approve=may_approve,
        approval_refusal=refusal,
        before_apply=await _before_apply(tx, job) if view.is_plan_applicable else "",
        shown=attempt if attempt in {each.number for each in view.attempts} else None,
        lost=await attempt_report.report(tx, job.id, job.attempt) if is_lost else None,
        quarantine=await states.rows(tx, who, job.module_id, place),
    )


async def _before_apply(tx: Tx, job: Job) -> str:
    rules = await policy.of_module(tx, job.module_id)
    return approval_words.before_kept_plan(rules.rules)


async def _run_address(tx: Tx, who: Principal, job: Job) -> str | None:
    run = None if job.group_run_id is None else await group_runs.known(tx, job.group_run_id)
    if run is None or not await authorize.may(tx, who, Verb.TREE_READ, authorize.group(run.organization_id, run.path)):
        return None
    return f"/dashboard/groups/{run.group_id}/runs/{run.id}"


async def _runners(tx: Tx, job_id: str) -> dict[int, str]:
    rows = await reads.runners_of_attempts(tx, job_id)
    return {each["number"]: " · ".join(filter(None, (each["runner_path"], each["instance_name"]))) for each in rows}


async def _kept_outputs(tx: Tx, who: Principal, place: authorize.Place, job: Job) -> Row | None:
    """Return the row with the outputs of a job, if the reader may read the state of its module."""
    if job.status is not JobStatus.SUCCEEDED or not await authorize.may(tx, who, Verb.STATE_READ, place):
        return None
    return await state_reads.outputs_of_job(tx, job.id)


def _outputs(row: Row | None, job: Job, keys: Keyring) -> list[OutputRow] | None:
    if row is None:
        return None
    if row["object"] is not None:
        return [
            OutputRow("all outputs", f"too large to be shown here: `terracrew job outputs {job.number}` prints them")
        ]
    try:
        content = keys.decrypt(bytes(row["content"]), outputs_context(job.id))
    except Undecryptable as error:  # the log and the plan of the job can be shown nevertheless
        return [OutputRow("all outputs", f"{error.message}. {words.UNDECRYPTABLE}")]
    found = msgspec.json.decode(content, type=dict[str, Output])
    return [OutputRow(name, None if each.is_sensitive else _text(each.value)) for name, each in sorted(found.items())]


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()

"""What the forge is shown of a pull request: one aggregate status, a few for modules, and one comment. Pure functions.

The comment is edited and never followed by another one. If it would be too long, the modules with the largest changes are shown, and
the page has the rest.
"""

import hashlib
from collections.abc import Collection, Sequence

import msgspec

from terracrew.api.pull_requests import PendingModule, PlanState, PullRequestApply
from terracrew.forges.model import REQUIRED_STATUS, Status, StatusState
from terracrew.wording import escapes, pull_request_words

MAX_MODULE_STATUSES = 10
"""How many modules have a status of their own. Beside a commit, more are no help, and forges limit them."""
MAX_RESOURCES = 30
"""How many resources of a module the comment lists."""
MAX_ROWS = 200
MAX_REPLIES = 5
MAX_PENDING_ROWS = 30
"""How many modules that do not exist yet the comment lists."""
MAX_PENDING_CHARACTERS = 300
MAX_POLICY_ROWS = 30
"""How much the comment lists of what policies say; the pages of the jobs have all."""
MAX_POLICY_CHARACTERS = 500
_RESERVED_CHARACTERS = 600
"""Kept free for the sentence about what was left out."""
_FAILED: Collection[PlanState] = ("failed", "canceled", "apply_failed")
_OPEN: Collection[PlanState] = ("waiting", "running", "stale", "applying")
_SHOWN = (
    "failed",
    "apply_failed",
    "canceled",
    "changes",
    "needs_approval",
    "applying",
    "stale",
    "running",
    "waiting",
    "applied",
    "no_changes",
)
"""The order of the states in the comment, before the size of the changes."""
_STATUS: dict[PlanState, StatusState] = {
    "failed": "failure",
    "canceled": "failure",
    "apply_failed": "failure",
    "changes": "success",
    "no_changes": "success",
    "applied": "success",
}


class ShownModule(msgspec.Struct, frozen=True, kw_only=True):
    """A module of a pull request, as it is shown."""

    path: str
    state: PlanState
    is_to_apply: bool = False
    """Whether its changes wait for a command."""
    counts: str = ""
    """What its plan would do: `2 to add, 0 to change, 1 to destroy`."""
    size: int = 0
    """How many resources that is."""
    resources: Sequence[str] = ()
    """The first of them, each with what happens to it: `destroy  aws_subnet.a`."""
    reason: str = ""
    """Why it failed, waits or is stale."""
    stops: Sequence[str] = ()
    """Why policies let nobody apply its plan."""
    remarks: Sequence[str] = ()
    """What else policies say of its plan: what needs approvals, what is only shown, and warnings."""
    job_number: int | None = None
    url: str = ""
    """The page of its job."""


class ForgeReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is shown of a pull request."""

    group_id: str
    """The group of the connection."""
    head_commit: str
    base_branch: str
    url: str
    """Its page in Terracrew."""
    modules: Sequence[ShownModule]
    apply: PullRequestApply = "never"
    """How its modules are applied, if all of them say the same; of several rules, the one that asks for most."""
    problem: str = ""
    """Why nothing can be planned: a conflict, a fork that nobody has allowed."""
    is_waiting: bool = False
    """Whether the problem is one that a person is expected to end, so that nothing has failed."""
    is_to_ask: bool = False
    """Whether an earlier commit was applied, and nobody has asked for the newest one, which would be merged then."""
    is_merged: bool = False
    pending: Sequence[PendingModule] = ()
    """The modules that its merge makes."""
    replies: Sequence[str] = ()
    """What became of the last commands, the newest first."""


def marker(group_id: str) -> str:
    """Return the invisible text by which the comment of a connection is found again, also if the connection was made anew."""
    return f"<!-- terracrew:{group_id} -->"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def aggregate(report: ForgeReport, max_characters: int = 140) -> Status:
    """Return the status that says whether the pull request is as it should be."""
    state, words = _aggregate(report)
    return Status(context=REQUIRED_STATUS, state=state, description=cut(words, max_characters), url=report.url)


def _aggregate(report: ForgeReport) -> tuple[StatusState, str]:
    if report.problem:
        return ("pending" if report.is_waiting else "failure"), report.problem
    total = len(report.modules)
    if not total:
        return "success", _new_modules(report) or "no module is touched"
    failed = [each for each in report.modules if each.state in _FAILED]
    stopped = [each for each in report.modules if each.stops]
    left = [each for each in report.modules if each.state in _OPEN or each.state == "needs_approval"]
    if failed:
        rest = f", {len(left)} not finished" if left else ""
        return "failure", f"{len(failed)} of {_modules(total)} failed{rest}: {', '.join(each.path for each in failed)}"
    if stopped:
        words = f"policies stop {_modules(len(stopped))} of {total}: {', '.join(each.path for each in stopped)}"
        return "failure", words
    if left:
        approvals = sum(each.state == "needs_approval" for each in left)
        if approvals == len(left):
            return "pending", f"{_modules(approvals)} {_verb(approvals, 'waits', 'wait')} for approval"
        return "pending", f"{total - len(left)} of {_modules(total)} finished"
    changing = sum(each.state == "changes" for each in report.modules)
    to_apply = sum(each.is_to_apply for each in report.modules)
    applied = sum(each.state == "applied" for each in report.modules)
    if to_apply and report.apply == "on_command_then_merge" and not report.is_merged:
        return "pending", f"{_modules(to_apply)} to apply before the merge: comment `terracrew apply`"
    if report.is_to_ask:
        return (
            "pending",
            "there is a commit after the one that was applied: comment `terracrew apply` to have it merged",
        )
    words = [f"{_modules(changing)} {_verb(changing, 'changes', 'change')}"] if changing else []
    words += [f"{_modules(applied)} applied"] if applied else []
    words = [", ".join(words) or f"{_modules(total)} without changes", _new_modules(report)]
    return "success", ", ".join(filter(None, words))


def _new_modules(report: ForgeReport) -> str:
    """Return how many modules the merge makes: `2 new modules`; empty if there are none."""
    new = sum(not each.reason for each in report.pending)
    return f"{new} new {'module' if new == 1 else 'modules'}" if new else ""


_NOT_TOUCHED = "the pull request does not touch it any more"


def of_modules(report: ForgeReport, written: Collection[str], max_characters: int = 140) -> list[Status]:
    """Return the statuses of modules: of those that failed or change, and of all that have one at this commit already.

    One that is not touched any more says so; otherwise it would be pending for ever.
    """
    found: list[Status] = []
    for each in sorted(report.modules, key=_order):
        context = f"{REQUIRED_STATUS}/{each.path}"
        is_wanted = each.state in _FAILED or each.state in ("changes", "applied", "needs_approval")
        if context in written or (is_wanted and len(found) < MAX_MODULE_STATUSES):
            what = each.reason or "; ".join(each.stops) or each.counts
            words = ": ".join(filter(None, (pull_request_words.STATES[each.state], what)))
            state = "failure" if each.stops else _STATUS.get(each.state, "pending")
            found.append(Status(context=context, state=state, description=cut(words, max_characters), url=each.url))
    named = {each.context for each in found}
    gone = [each for each in written if each.startswith(f"{REQUIRED_STATUS}/") and each not in named]
    return found + [Status(context=each, state="success", description=_NOT_TOUCHED, url=report.url) for each in gone]


def comment(report: ForgeReport, max_characters: int) -> str:
    """Return the text of the comment in Markdown, of at most this length."""
    head = [marker(report.group_id), _title(report), ""]
    if report.problem:
        head += [f"> {_inline(report.problem)}", ""]
    tail = ["", *_pending(report), *_ending(report)]
    room = max_characters - len("\n".join([*head, *tail])) - _RESERVED_CHARACTERS
    modules = sorted(report.modules, key=_order)
    lines: list[str] = []
    shown = 0
    for each in modules[:MAX_ROWS]:
        row = _row(each)
        needed = len(row) + 1 + (0 if lines else len(_TABLE) + 1)
        if needed > room:
            break
        lines += [row] if lines else [_TABLE, row]
        room -= needed
        shown += 1
    details: list[str] = []
    for each in modules[:shown]:
        if not each.resources:
            continue
        block = _details(each)
        if len(block) + 1 > room:
            break
        details.append(block)
        room -= len(block) + 1
    policies = _policies(modules[:shown], room)
    if shown < len(modules):
        lines += [
            "",
            f"{_modules(len(modules) - shown)} more: [the page of this pull request]({report.url}) shows all.",
        ]
    return "\n".join([*head, *lines, *([""] if details else []), *details, *policies, *tail])


_TABLE = "| Module | Plan | |\n|---|---|---|"


def _title(report: ForgeReport) -> str:
    _, words = _aggregate(report)
    words = "not planned" if report.problem else words
    return f"**[Terracrew]({report.url})**: {_inline(words)} at `{report.head_commit[:12]}` merged into `{_code(report.base_branch)}`"


def _ending(report: ForgeReport) -> list[str]:
    lines = [f"- {_reply(reply)}" for reply in report.replies[:MAX_REPLIES]]
    lines += [""] if lines else []
    return [*lines, f"<sub>{_HOW[report.apply]} `terracrew help` lists the commands.</sub>"]


def _pending(report: ForgeReport) -> list[str]:
    """Return the list of the modules that the merge makes. They do not exist before it, so nothing of them is planned."""
    if not report.pending:
        return []
    lines = ["New modules of this merge:" if report.is_merged else "New modules, pending until this is merged:", ""]
    for each in report.pending[:MAX_PENDING_ROWS]:
        name = f"`{_code(each.path)}`" if each.path else "no module"
        where = f" of the folder `{_code(cut(each.folder, MAX_PENDING_CHARACTERS))}`" if each.folder else ""
        why = f": {_inline(cut(each.reason, MAX_PENDING_CHARACTERS))}" if each.reason else ""
        lines.append(f"- {name}{where}{why}")
    left = len(report.pending) - MAX_PENDING_ROWS
    lines += [f"- {left} more: [the page of this pull request]({report.url}) shows all."] if left > 0 else []
    return [*lines, ""]


_HOW: dict[PullRequestApply, str] = {
    "never": "Merging applies nothing by itself.",
    "on_merge": "Merging applies the modules that change.",
    "on_command": "Comment `terracrew apply` to apply these plans, before or after the merge.",
    "on_command_then_merge": "Comment `terracrew apply` to apply these plans; when all are applied, the pull request is merged.",
}


def _policies(modules: Sequence[ShownModule], room: int) -> list[str]:
    """Return the list of what policies say, as far as there is room. What stops an apply comes first."""
    said = [(each.path, text) for each in modules for text in each.stops]
    said += [(each.path, text) for each in modules for text in each.remarks]
    lines: list[str] = []
    for path, text in said[:MAX_POLICY_ROWS]:
        line = f"- `{_code(path)}`: {_inline(cut(text, MAX_POLICY_CHARACTERS))}"
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    return ["", "Policies:", "", *lines] if lines else []


def _reply(text: str) -> str:
    """Return what became of a command, which has code in it. It mentions nobody and has no HTML, whatever error it repeats."""
    return _entities(" ".join(escapes.plain(text).split())).replace("@", "@\u200b").replace("://", ":\u200b//")


def _row(each: ShownModule) -> str:
    name = f"[`{_code(each.path)}`]({each.url})" if each.url else f"`{_code(each.path)}`"
    words = each.counts if each.state in ("changes", "applied", "needs_approval", "applying") else ""
    return f"| {name} | {pull_request_words.STATES[each.state]} | {_inline(each.reason or words)} |"


def _details(each: ShownModule) -> str:
    lines = "\n".join(_code(line) for line in each.resources[:MAX_RESOURCES])
    left = f"\n… {each.size - MAX_RESOURCES} more" if each.size > MAX_RESOURCES else ""
    return f"<details><summary><code>{_html(each.path)}</code> {_html(each.counts)}</summary>\n\n```\n{lines}{left}\n```\n</details>"


def _order(each: ShownModule) -> tuple[int, int, str]:
    return _SHOWN.index(each.state), -each.size, each.path


def _inline(text: str) -> str:
    """Return a text of anybody so that a forge shows it as it is: no link, no mention of a person, no markup, one line."""
    plain = " ".join(escapes.plain(text).split())
    escaped = "".join(f"\\{each}" if each in "\\*_[]|#~`!" else each for each in _entities(plain))
    return escaped.replace("@", "@\u200b").replace("://", ":\u200b//")


def _code(text: str) -> str:
    return " ".join(escapes.plain(text).split(" ")).replace("`", "'").replace("|", "¦").replace("\n", " ")


def _html(text: str) -> str:
    return _entities(_code(text)).replace("@", "@\u200b")


def _entities(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str, max_characters: int) -> str:
    return text if len(text) <= max_characters else text[: max_characters - 1] + "…"


def _modules(count: int) -> str:
    return f"{count} module" if count == 1 else f"{count} modules"


def _verb(count: int, one: str, many: str) -> str:
    return one if count == 1 else many

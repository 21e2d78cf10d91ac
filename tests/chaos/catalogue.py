"""Lists how a chaos run checks each rule, from what real processes left behind."""

from tests.chaos import checks
from tests.rules import Checks, Rules

CHECKS: Checks = {
    Rules.ONE_OWNER: (checks.history, checks.no_overlap),
    Rules.FENCING: (checks.states_in_order, checks.history),
    Rules.NOTHING_LOST: (checks.states_kept, checks.success_has_its_state, checks.logs, checks.all_ended),
    Rules.PERMISSION_TO_APPLY: (checks.no_overlap,),
    Rules.TERMINAL_IS_TERMINAL: (checks.history, checks.all_ended),
    Rules.NO_STUCK_JOB: (checks.all_ended, checks.only_asked_cancels, checks.no_job_lost_to_a_fault),
    Rules.LOCK_FOLLOWS_ATTEMPT: (checks.all_ended, checks.no_overlap),
    Rules.LEAST_PRIVILEGE: (
        "Nobody in the storm asks for what is not theirs: it attacks processes, disks, clocks and the network. "
        "tests.e2e.test_tenants and tests.executor.isolation.test_landlock attack privileges with real processes."
    ),
    Rules.MADE_ONCE: (checks.made_once, checks.lists_name_what_was_lost),
    Rules.SET_BACK: (checks.held, checks.made_once),
    Rules.IN_ORDER: (checks.applied_in_order,),
}

"""How the stateful test checks each rule: in the database after every step, and whenever an engine starts."""

from tests.rules import Checks, Rules
from tests.stateful import rules
from tests.stateful.simulated_runners import SimulatedRunners

CHECKS: Checks = {
    Rules.ONE_OWNER: (rules.one_owner,),
    Rules.FENCING: (rules.superseded_changes_nothing, rules.nothing_after_a_result),
    Rules.NOTHING_LOST: (rules.nothing_is_lost, rules.states_are_earned),
    Rules.PERMISSION_TO_APPLY: (SimulatedRunners.begun, rules.plans_are_used_once),
    Rules.TERMINAL_IS_TERMINAL: (rules.terminal_is_terminal,),
    Rules.NO_STUCK_JOB: (rules.nobody_is_stuck, rules.canceled_by_a_person),
    Rules.LOCK_FOLLOWS_ATTEMPT: (rules.the_lock_follows_the_attempt, rules.gone_is_gone, SimulatedRunners.witness),
    Rules.LEAST_PRIVILEGE: (
        "The machine's hosts speak for their own attempts only. The hub's tests send what others may not: "
        "tests.server.hub.test_message_identities and tests.server.hub.executors.test_finished_credential."
    ),
    Rules.MADE_ONCE: (SimulatedRunners.made_once,),
    Rules.SET_BACK: (
        "The database is never set back here. tests.explore.test_explore and tests.server.jobs.set_back.test_restore set it back."
    ),
    Rules.IN_ORDER: (rules.claimed_in_order, rules.applied_in_order),
}

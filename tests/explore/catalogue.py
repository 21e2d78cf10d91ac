"""How the explorer checks each rule, after every move that could break it."""

from tests.explore import rules
from tests.rules import Checks, Rules

CHECKS: Checks = {
    Rules.ONE_OWNER: (rules.one_owner,),
    Rules.FENCING: (rules.superseded_changes_nothing, rules.nothing_after_a_result),
    Rules.NOTHING_LOST: (rules.nothing_lost, rules.lineage_is_kept),
    Rules.PERMISSION_TO_APPLY: (rules.needs_a_permit_to_mutate, rules.no_permit_beside_a_quarantine),
    Rules.TERMINAL_IS_TERMINAL: (rules.terminal_is_terminal,),
    Rules.NO_STUCK_JOB: (rules.is_settled, rules.lease_from_the_loss, rules.canceled_by_a_person),
    Rules.LOCK_FOLLOWS_ATTEMPT: (
        rules.module_waits_for_a_person,
        rules.unknown_is_not_gone,
        rules.gone_means_gone,
        rules.no_overlap,
    ),
    Rules.LEAST_PRIVILEGE: (rules.least_privilege,),
    Rules.MADE_ONCE: (rules.made_once, rules.approval_of_what_was_seen, rules.doubts_come_back),
    Rules.SET_BACK: (rules.made_once_after_a_set_back, rules.nothing_while_held),
    Rules.IN_ORDER: (rules.claimed_in_order, rules.applied_in_order),
}

"""Which files may change and read each table, and the exceptions, each with its reason."""

from typing import NamedTuple

STORES: dict[str, tuple[str, ...]] = {
    "api_tokens": ("identity/people/store.py",),
    "archives": ("tree/modules/store.py",),
    "assignments": ("runners/assignments/store.py",),
    "attempt_inputs": ("jobs/input_store.py",),
    "identities": ("identity/sso/store.py",),
    "identity_logins": ("identity/sso/store.py",),
    "identity_providers": ("identity/sso/store.py",),
    "identity_sessions": ("identity/sso/store.py",),
    "login_policies": ("identity/sso/store.py",),
    "mapping_rules": ("identity/sso/store.py",),
    "step_settings": ("tree/step_settings/store.py",),
    "attempts": ("jobs/attempt_store.py", "jobs/attempts/claim_store.py"),
    "audit": ("audit/store.py",),
    "cloud_identities": ("cloud_identities/store.py",),
    "clock": ("db/postgres/clock.py", "db/sqlite/database.py"),
    "cloud_deployments": ("deployments/store.py",),
    "cloud_instances": ("deployments/store.py",),
    "device_logins": ("identity/terminal_logins/store.py",),
    "discovery_folders": ("discovery/store.py",),
    "discovery_rules": ("discovery/store.py",),
    "policies": ("policies/store.py",),
    "policy_results": ("policies/store.py",),
    "policy_versions": ("policies/store.py",),
    "configuration_versions": ("terminals/store.py",),
    "terminal_runs": ("terminals/store.py",),
    "state_uploads": ("terminals/store.py",),
    "terminal_words": ("terminals/store.py",),
    "published_modules": ("registry/store.py",),
    "published_uses": ("registry/store.py",),
    "published_versions": ("registry/store.py",),
    "drift_items": ("drift/store.py",),
    "drift_modules": ("drift/store.py",),
    "drift_mutes": ("drift/store.py",),
    "drift_results": ("drift/store.py",),
    "ended_worker_tokens": ("identity/access/credential_store.py",),
    "engine_logins": ("identity/terminal_logins/store.py",),
    "engine_version_ranges": ("engines/store.py",),
    "executor_starts": ("runners/starts/store.py",),
    "exchanged_tokens": ("identity/federation/store.py",),
    "figure_entries": ("figures/store.py",),
    "figure_samples": ("figures/store.py",),
    "figures": ("figures/store.py",),
    "fleet_jobs": ("fleet_jobs/store.py",),
    "fleet_log": ("fleet_jobs/store.py",),
    "fleet_steps": ("fleet_jobs/store.py",),
    "forge_comments": ("forges/fact_store.py",),
    "forge_connections": ("forges/store.py",),
    "forge_deliveries": ("forges/delivery_store.py",),
    "forge_pull_requests": ("forges/fact_store.py",),
    "forge_repositories": ("forges/repository_store.py",),
    "forge_users": ("pull_requests/store.py",),
    "group_run_modules": ("group_runs/store.py",),
    "group_runs": ("group_runs/store.py",),
    "groups": ("tree/groups/store.py",),
    "held_modules": ("history/store.py",),
    "history": ("history/store.py",),
    "holds": ("history/store.py",),
    "inputs": ("tree/inputs/store.py",),
    "instance_engines": ("engines/store.py",),
    "instance_updates": ("runner_updates/store.py",),
    "instances": ("connections/store.py",),
    "job_inputs": ("jobs/input_store.py",),
    "jobs": ("jobs/store.py", "jobs/attempts/claim_store.py"),
    "leases": ("db/lease.py",),
    "log_chunks": ("logs/store.py",),
    "log_objects": ("logs/store.py",),
    "lost_resources": ("jobs/lost_resources/store.py",),
    "removed_locks": ("tree/modules/lock_store.py",),
    "module_locks": ("tree/modules/lock_store.py",),
    "modules": ("tree/modules/store.py",),
    "notes": ("jobs/attempt_store.py",),
    "object_deletions": ("retention/store.py",),
    "notification_channels": ("announcements/channel_store.py",),
    "notification_deliveries": ("announcements/delivery_store.py",),
    "once_tokens": ("runners/once_tokens/store.py",),
    "one_time_links": ("identity/people/store.py",),
    "organizations": ("tree/groups/store.py", "tree/groups/organization_store.py"),
    "outputs": ("state/store.py",),
    "plan_diffs": ("jobs/plans/diff_store.py",),
    "plan_json": ("jobs/plans/json_store.py",),
    "plans": ("jobs/plans/store.py",),
    "provisioned_groups": ("identity/provisioning/store.py",),
    "provisioned_members": ("identity/provisioning/store.py",),
    "provisioned_people": ("identity/provisioning/store.py",),
    "provisioners": ("identity/provisioning/store.py",),
    "pull_request_modules": ("pull_requests/store.py",),
    "pull_requests": ("pull_requests/store.py",),
    "release_artifacts": ("releases/store.py",),
    "release_tokens": ("releases/store.py",),
    "releases": ("releases/store.py",),
    "removed": ("runners/store.py",),
    "retention_runs": ("retention/store.py",),
    "role_bindings": ("identity/access/role_store.py",),
    "rollout_runners": ("rollouts/store.py",),
    "rollouts": ("rollouts/store.py",),
    "runner_alerts": ("runners/alerts/store.py",),
    "runner_outages": ("runners/outages/store.py",),
    "runners": ("runners/store.py",),
    "schedules": ("schedules/store.py",),
    "servers": ("db/servers.py",),
    "service_account_holders": ("identity/access/store.py",),
    "service_account_secrets": ("identity/access/store.py",),
    "service_accounts": ("identity/access/store.py",),
    "sessions": ("identity/people/store.py",),
    "settings": ("db/stored_values.py",),
    "signing_keys": ("identity/keys/store.py",),
    "states": ("state/store.py",),
    "steps": ("jobs/attempt_store.py",),
    "trigger_problems": ("tree/inputs/trigger_store.py",),
    "triggered_modules": ("tree/inputs/trigger_store.py",),
    "trust_policies": ("identity/federation/store.py",),
    "uploads": ("uploads/store.py",),
    "used_identity_tokens": ("identity/sso/store.py",),
    "users": ("identity/people/store.py",),
}
"""The files that may change a table. The claim has a file of its own, because one statement decides it and changes both tables."""


class Writer(NamedTuple):
    """A file that may set columns of a table that another package owns; it neither inserts nor deletes rows."""

    file: str
    table: str
    columns: frozenset[str]
    reason: str


class Reader(NamedTuple):
    """A file that may read tables without joining them to one of its own package."""

    file: str
    tables: frozenset[str]
    reason: str


def _writer(file: str, table: str, columns: str, reason: str) -> Writer:
    return Writer(file, table, frozenset(columns.split()), reason)


def _reader(file: str, tables: str, reason: str) -> Reader:
    return Reader(file, frozenset(tables.split()), reason)


WRITERS = (
    _writer(
        "connections/store.py",
        "attempts",
        "heard_at executor_server_id executor_heard_at",
        "who is connected to which server is written every few seconds, below the packages that know jobs",
    ),
    _writer(
        "deployments/store.py",
        "runners",
        "can_wake",
        "whether a runner can be woken changes in one transaction with its deployment",
    ),
    _writer(
        "logs/store.py",
        "attempts",
        "log_moved log_removed_at log_removed_days has_log_chunks",
        "where the log of an attempt is changes in one transaction with its chunks and objects",
    ),
    _writer(
        "state/store.py",
        "modules",
        "state_version",
        "the version counts the states of a module, and changes in one transaction with them",
    ),
    _writer(
        "identity/access/credential_store.py",
        "runners",
        "worker_token_sha256 next_worker_token_sha256 worker_token_expires_at is_worker_token_rotated",
        "these are credentials of the runner: identity looks them up, rotates and revokes them",
    ),
    _writer(
        "identity/access/store.py",
        "runners",
        "service_account_id",
        "a service account that is removed leaves its runners in the same transaction",
    ),
)
FRAGMENTS = (
    _reader(
        "db/statements/fragments.py",
        "instances jobs modules removed runners states",
        "statements of several packages show the name of the runner and the instance that a row refers to, and ask whether "
        "everything in a module was destroyed",
    ),
    _reader(
        "principals/visibility.py",
        "groups modules role_bindings",
        "the lists of every package begin with what their reader may see",
    ),
    _reader(
        "runners/eligibility.py",
        "assignments attempts engine_version_ranges groups instance_engines instances jobs modules plans runners",
        "claim, queue and reasons say the same about which runners may have a job",
    ),
)
"""Files with named parts of statements, which are not statements themselves."""
READERS = (
    _reader(
        "overview/reads.py",
        "groups instances jobs modules runner_outages runners",
        "the overview joins what several packages have, all below `overview`, which owns no table",
    ),
    _reader(
        "figures/store.py",
        "groups modules runners",
        "an entry gets the groups of its module and its runner; their packages are above `figures`",
    ),
    _reader("figures/reads.py", "groups", "sums are kept for a group and those above; `groups` is above `figures`"),
    _reader(
        "runs/reads.py",
        "attempts held_modules inputs jobs modules notes plans states steps",
        "what people are told about a job comes from several packages, all below `runs`, which owns no table",
    ),
    _reader(
        "cloud_hosted/reporting_reads.py",
        "cloud_deployments fleet_jobs removed runners",
        "who owns what is in an account comes from several packages, all below `cloud_hosted`",
    ),
    _reader(
        "rollouts/reads.py",
        "cloud_deployments fleet_jobs fleet_steps groups instances runners",
        "which version a runner has, and what changes it now, comes from several packages, all below `rollouts`",
    ),
    _reader(
        "engines/store.py",
        "instances modules runners",
        "an organization knows the engines that its instances have announced and that its modules have",
    ),
    _reader(
        "scheduling/reads.py",
        "groups inputs instances jobs module_locks modules runners states",
        "the candidates of the scheduler are read by statements that are tuned together; `scheduling` owns no table",
    ),
    _reader(
        "retention/usage_reads.py",
        "archives audit jobs log_chunks log_objects modules outputs plan_diffs plan_json plans release_artifacts states",
        "the survey counts every table that grows",
    ),
    _reader(
        "audit/store.py", "jobs modules", "an entry about a job says where its module is; both are far above `audit`"
    ),
    _reader("principals/reads.py", "role_bindings", "every package asks for permission, also those below `identity`"),
    _reader(
        "connections/reads.py",
        "attempts jobs removed runners",
        "a connection serves runners and attempts, and is below the packages that own them",
    ),
    _reader(
        "identity/access/credential_store.py",
        "attempts jobs modules removed runners",
        "a credential leads to its runner or attempt; their packages are above or beside `identity`",
    ),
    _reader("history/store.py", "modules", "a hold holds every module; `modules` is above `history`"),
    _reader("identity/access/role_store.py", "modules", "a role leads to its module; `modules` is above `identity`"),
    _reader(
        "tree/groups/store.py", "modules", "a group and a module cannot have the same path; `modules` is above `groups`"
    ),
    _reader("logs/reads.py", "attempts jobs", "the row of an attempt says how long its log is; `jobs` is above `logs`"),
    _reader(
        "logs/chunk_reads.py",
        "attempts",
        "the row of an attempt says which of its log has moved; `jobs` is above `logs`",
    ),
    _reader(
        "tree/modules/reads.py",
        "jobs states",
        "a module with a history is deleted only by force; both packages are above",
    ),
    _reader(
        "runners/store.py",
        "groups jobs modules service_accounts",
        "a runner is removed only if no job or module needs it; the packages are above or beside `runners`",
    ),
    _reader(
        "runners/version_reads.py",
        "cloud_deployments instances",
        "the versions of runners are those of their instances, or of their deployments while they sleep",
    ),
    _reader("runners/view_reads.py", "instances jobs", "the view of a runner has its instances, each with its jobs"),
    _reader("state/reads.py", "jobs", "a state is adopted only while no job holds the lock; `jobs` is above `state`"),
    _reader(
        "db/clock_reads.py",
        "attempts instances jobs",
        "the clock of a database does not go back behind the stored times; `db` is below all packages",
    ),
)
"""Files of statements that read tables of other packages only."""

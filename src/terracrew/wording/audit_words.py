"""Says in words what an entry of the audit log records: `approved the plan of job #12 of app/web`."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, cast

MAX_VALUE_CHARACTERS = 120
"""How much of a text that a person wrote, such as a reason, a sentence repeats."""
SENTENCES: dict[str, tuple[str, ...]] = {
    "archive.upload": ("uploaded an archive",),
    "attempt.deliver_late": ("accepted what attempt {attempt} of {job} delivered late",),
    "attempt.reuse_ticket": ("showed a used ticket of attempt {attempt} of {job}, which may have been stolen",),
    "audit.export": ("exported the audit log", " as {format}"),
    "cloud_identity.change": ("changed the cloud identity {account}", ": {changed}"),
    "cloud_identity.create": ("created the cloud identity {account}", " for {location}"),
    "cloud_identity.delete": ("deleted the cloud identity {account}",),
    "drift.check": ("asked for drift checks of {place}",),
    "drift.mute": ("muted the drift of {address} in {place}", " until {until}", ": {reason}"),
    "drift.unmute": ("ended the mute of {address} in {place}",),
    "fleet_job.cancel": ("canceled {job}", ": {type}"),
    "fleet_job.create": ("queued {job}", ": {type}"),
    "policy.activate": ("activated version {version} of the policy {name} of {place}",),
    "policy.change": ("changed the policy {name} of {place}", ": {changed}"),
    "policy.create": ("made the policy {name} of {place}",),
    "policy.delete": ("deleted the policy {name} of {place}",),
    "policy.retire": ("retired the policy {name} of {place}",),
    "policy.version": ("added version {version} to the policy {name} of {place}",),
    "discovery.change": ("changed the discovery rule {name} of {place}", ": {changed}"),
    "discovery.create": ("made the discovery rule {name} of {place}", " for {url}"),
    "discovery.delete": ("deleted the discovery rule {name} of {place}",),
    "discovery.preview": ("looked at what the discovery rule {name} of {place} would make", " of {url}"),
    "discovery.run": ("ran the discovery rule {name} of {place}",),
    "terminal_login.fail": ("failed to get the token of a command line", ", {count} times"),
    "forge.add_repository": ("added the repository {repository} to the connection {connection}",),
    "forge.change": ("changed the connection {connection}", ": {changed}"),
    "forge.create": ("created the connection {connection}", " to {base_url}"),
    "forge.delete": ("deleted the connection {connection}",),
    "forge.handle_again": ("handled a delivery of the connection {connection} again",),
    "forge.link_user": ("let {forge_user} on the forge {forge} act as {user}",),
    "forge.remove_repository": ("removed the repository {repository} from the connection {connection}",),
    "forge.repair_hook": ("repaired the hook of {repository} of the connection {connection}",),
    "forge.replace_hook_secret": ("replaced the secret of the hooks of the connection {connection}",),
    "forge.test": ("tested the connection {connection}",),
    "forge.unlink_user": ("let the user {forge_user_id} of the forge {forge} act as nobody any more",),
    "pull_request.allow": ("allowed the commit {commit} of {pull_request} to be planned",),
    "pull_request.plan": ("let {pull_request} be planned again in {module}",),
    "registry.change": ("changed the published module {name} of {place}", ": {changed}"),
    "registry.create": ("made the published module {name} of {place}", " for {url}"),
    "registry.delete": ("deleted the published module {name} of {place}",),
    "registry.look": ("looked at the tags of the published module {name} of {place}",),
    "registry.publish": ("published version {version} of {name} of {place}", ", of the tag {tag}"),
    "registry.restore": ("gave back version {version} of {name} of {place}",),
    "registry.withdraw": ("withdrew version {version} of {name} of {place}", ": {reason}"),
    "group.clear_step": ("took away the hooks and flags of {step} in the group {place}",),
    "group.create": ("created the group {place}",),
    "group.delete": ("deleted the group {place}",),
    "group.resume_run": ("resumed the {type} of all modules of {place}",),
    "group.run": ("began the {type} of all modules of {place}",),
    "group.set_step": ("set the hooks and flags of {step} in the group {place}",),
    "group.stop_run": ("stopped the {type} of all modules of {place}",),
    "group.update": ("changed the group {place}", ": {changed}"),
    "input.remove": ("removed the input {name} of {place}",),
    "input.set": ("set the input {name} of {place}", ", version {version}"),
    "job.approve": ("approved the plan of {job}", ": {comment}"),
    "job.cancel": ("canceled {job}", " ({mode})"),
    "job.change_priority": ("changed the priority of {job}", " from {from}", " to {to}"),
    "job.decline": ("declined the plan of {job}", ": {reason}"),
    "job.give_up": ("gave up attempt {attempt} of {job}",),
    "job.replan": ("asked for a new plan of {job}",),
    "job.run": ("queued {job}", ": {type}", ", only {targets}", " of the plan that job #{plan_of} made"),
    "link.fail": ("failed to log in with a link", ", {count} times"),
    "login.fail": ("failed to log in", ", {count} times"),
    "module.change": ("changed the module {place}", ": {changed}"),
    "module.clear_step": ("took away the hooks and flags of {step} in the module {place}",),
    "module.create": ("created the module {place}",),
    "module.delete": ("deleted the module {place}",),
    "module.end_reference": (
        "ended the use of the output {output} of {place}",
        " as the input {name} of another module",
    ),
    "module.force_unlock": ("removed the lock of {holder} from the module {place} by force", ": {reason}"),
    "module.lock": ("locked the module {place}", ": {reason}"),
    "module.move": ("moved the module {place}", ", which was {before}"),
    "module.release": ("released the module {place} from the hold of the server",),
    "module.source_back": ("found the folder of the module {place} again",),
    "module.source_gone": ("found that the folder of the module {place} is gone", " since {commit}"),
    "module.set_step": ("set the hooks and flags of {step} in the module {place}",),
    "module.unlock": ("unlocked the module {place}",),
    "notification_channel.change": ("changed the notification channel {channel}", ": {changed}"),
    "notification_channel.create": ("created the notification channel {channel}", ", to {target}"),
    "notification_channel.delete": ("deleted the notification channel {channel}",),
    "notification_channel.replace_secret": ("replaced the secret of the notification channel {channel}",),
    "notification_channel.send_again": ("sent a message of the notification channel {channel} again",),
    "notification_channel.test": ("tested the notification channel {channel}",),
    "organization.create": ("created the organization {name}",),
    "organization.delete": ("deleted the organization {name}",),
    "organization.rename": ("renamed the organization", " {before}", " to {name}"),
    "outputs.read": ("read the outputs of {place}",),
    "password.fail": ("gave a wrong password", " {count} times"),
    "release.publish": ("published the release {version}",),
    "release.withdraw": ("withdrew the release {version}", ": {reason}"),
    "provisioning.adopt": ("let the identity provider manage {name}", " as {user_name}"),
    "provisioning.change_group": ("changed the group {name}", ", before {before}", ", {members} members changed"),
    "provisioning.change_user": ("changed the user {name}", ": {changed}"),
    "provisioning.create_group": ("created the group {name}", ", {members} members"),
    "provisioning.delete_group": ("deleted the group {name}", ", {members} members"),
    "provisioning.delete_user": ("deactivated the user {name}",),
    "provisioning.release": ("took {name} from the identity provider",),
    "provisioning.remove": ("ended the provisioning of people",),
    "provisioning.set": ("let {account} provision people",),
    "release_token.create": ("created the release token {name}",),
    "release_token.revoke": ("revoked the release token {name}",),
    "retention.pass": ("removed what is older than the server keeps it",),
    "retention.sweep": ("removed objects that nothing referred to",),
    "role.expire": ("ended the role {role} of {name} in {place}: it had expired",),
    "role.grant": ("made {name} {role} of {place}", " until {expires_at}", " by a rule of {provider}"),
    "role.revoke": ("took the role {role} of {place} from {name}", " by the rules of {provider}"),
    "rollout.end": ("ended the roll-out of {version}", ": {status}", ", {reason}"),
    "rollout.pause": ("paused the roll-out of {version}",),
    "rollout.resume": ("resumed the roll-out of {version}",),
    "rollout.start": ("began the roll-out of {version}", ", to {paths}"),
    "rollout.stop": ("stopped the roll-out of {version}",),
    "runner.acknowledge": ("acknowledged the alerts about the runner {place}",),
    "runner.assign": ("assigned the runner {place}", " to {target}"),
    "runner.change": ("changed the runner {place}", ": {changed}"),
    "runner.create": ("created the runner {place}",),
    "runner.delete": ("removed the runner {place}", ", {force}"),
    "runner.move": (
        "connected as the instance {instance} of {runner} from another place",
        ", which was at {from} before",
    ),
    "runner.once_token_create": ("made a token for one job for the runner {place}", ", valid until {until}"),
    "runner.once_token_return": (
        "gave back a token for one job of the runner {place}",
        ", because the grant of job #{number} was never sent",
    ),
    "runner.once_token_revoke": ("revoked a token for one job of the runner {place}",),
    "runner.once_token_use": (
        "used a token for one job as the instance {instance} of {runner}",
        " and claimed job #{number}",
    ),
    "runner.remove": ("began to remove the runner {place}",),
    "runner.replace_token": ("gave the runner {place} a new token",),
    "runner.restore": ("declared the runner {place} again",),
    "runner.retire": ("retired the shared runner {place}",),
    "runner.stop_instance": ("stopped the instance {instance} of {runner}", ": {reason}"),
    "runner.takeover": ("took over the instance {instance} of {runner}", " from {from}"),
    "runner.takeover_refused": ("was refused as the instance {instance}", ": {reason}"),
    "runner.token_reuse": ("used a worker token that {runner} had replaced",),
    "runner.token_rotate": ("replaced its worker token",),
    "runner.wake": ("woke the runner {place}",),
    "runner.withdraw": ("withdrew the runner {place}", " from {target}"),
    "schedule.change": ("changed the schedule {name} of {place}", ": {changed}"),
    "schedule.create": ("made the schedule {name} of {place}", ": {type}", " at {cron}"),
    "schedule.delete": ("deleted the schedule {name} of {place}",),
    "schedule.run": ("ran the schedule {name} of {place}",),
    "secret.remove": ("removed the secret {name} of {place}",),
    "secret.set": ("set the secret {name} of {place}", ", version {version}"),
    "server.hold": ("held everything that changes something", ": {reason}"),
    "server.release": ("released the server from its hold",),
    "server.adopt_store": ("made {place} the object store of the database",),
    "server.rekey": ("began to encrypt everything with a new master key",),
    "server.stop_rekey": ("stopped the encryption with a new master key",),
    "service_account.add_secret": ("added a secret to the service account {account}",),
    "service_account.add_trust": ("let tokens of {issuer} stand for the service account {account}",),
    "service_account.create": ("created the service account {account}",),
    "service_account.delete": ("deleted the service account {account}",),
    "service_account.disable": ("disabled the service account {account}",),
    "service_account.enable": ("enabled the service account {account}",),
    "service_account.remove_trust": ("removed the trust of the service account {account} in {issuer}",),
    "service_account.rename": ("renamed the service account", " {before}", " to {name}"),
    "service_account.revoke_secret": ("revoked a secret of the service account {account}",),
    "session.end": ("logged out",),
    "session.revoke": ("ended the sessions of {user}", " at {provider}", ": {reason}"),
    "session.start": ("logged in", " with a {by}"),
    "single_sign_on.fail": ("failed to log in by single sign-on", ", {count} times"),
    "sso.add_rule": ("added a rule to {provider}", ": who has {condition}", " is {role}", " of {place}"),
    "sso.change_provider": ("changed the provider {provider}", ": {changed}"),
    "sso.create_provider": ("created the provider {provider}", " for {issuer}"),
    "sso.delete_provider": ("deleted the provider {provider}",),
    "sso.link": ("linked the user {user}", " to {subject}", " of {provider}"),
    "sso.policy": ("changed how people log in", ": {policy}"),
    "sso.remove_rule": ("removed a rule from {provider}", ": who has {condition}", " is {role}", " of {place}"),
    "sso.unlink": ("removed the link to {subject}", " of {provider}"),
    "state.adopt": ("adopted a state", " as version {version}", " of {place}"),
    "state.adopt_late": ("accepted a late state of {job}", " as version {version}"),
    "state.discard": ("discarded a state", " of {place}"),
    "state.import": (
        "imported a state",
        " as version {version}",
        " of {place}",
        " in place of version {replaced_version}",
    ),
    "state.read": ("read the state", " in version {version}", " of {place}"),
    "state.restore": ("restored a state", " from version {restored_version}", " as version {version}", " of {place}"),
    "token.allow": (
        "allowed a command line to get the API token {name}",
        " on {machine}",
        ", which waits at {waits_at}",
    ),
    "state.write": ("wrote a state at a terminal", " as version {version}", " of {place}"),
    "state.write_late": ("wrote a state of {place} without the lock, which is kept in quarantine",),
    "token.create": ("created the API token {name}", " with {by}"),
    "token.deny": ("refused an API token to a command line", " on {machine}", ", which waits at {waits_at}"),
    "token.revoke": ("revoked the API token {name}", " of {user}", ": {reason}"),
    "token_exchange.fail": ("failed to get a token", ", {count} times", ": {reason}"),
    "user.create": ("created the user {name}",),
    "user.delete": ("deleted the user {name}",),
    "user.disable": ("disabled the user {name}",),
    "user.enable": ("enabled the user {name}",),
    "user.link": ("made a login link for {name}",),
    "user.make_administrator": ("made {name} an administrator",),
    "user.password": ("set the password of {name}",),
    "user.rename": ("renamed the user", " {before}", " to {name}"),
    "user.reset": ("reset the password of {name}",),
    "user.unmake_administrator": ("took the rights of an administrator from {name}",),
}
"""The sentence of each action, and what follows it if the entry has the details."""
_RUNNER_SWITCHES = {
    "is_disabled": ("disabled", "enabled"),
    "is_draining": ("drained", "undrained"),
}
"""What a single change of a runner is called, by whether the new value is true."""
_NOT_CHANGES = ("path", "name", "changed")
_ORGANIZATION = "the organization"


def sentence(entry: Mapping[str, Any]) -> str:
    """Return what somebody did, without who and when. An action that this version does not know keeps its name."""
    action, details = str(entry["action"]), _details(entry)
    changes = [name for name in details if name not in _NOT_CHANGES]
    if action == "runner.change" and len(changes) == 1 and changes[0] in _RUNNER_SWITCHES:
        done, undone = _RUNNER_SWITCHES[changes[0]]
        return f"{done if details[changes[0]] else undone} the runner {_place(entry)}"
    if action not in SENTENCES:
        return f"{action} {entry['target_kind'].replace('_', ' ')} {_name(entry)}".strip()
    words = _words(entry)
    first, *more = SENTENCES[action]
    known = defaultdict(lambda: _name(entry), words)
    return first.format_map(known) + "".join(each.format_map(words) for each in more if _word_in(each) in words)


def _words(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the words of an entry by their names in the sentences, without those that it does not have."""
    details = _details(entry)
    found = {name: _text(value) for name, value in details.items()}
    group, name = details.get("group"), details.get("name")
    found |= {
        "account": _text(f"{group}/{name}" if group else name or ""),
        "changed": _changes(details),
        "expires_at": _text(details.get("expires_at", "")).partition("T")[0],
        "count": _text(details["count"]) if details.get("count", 1) != 1 else "",
        "force": "by force" if details.get("is_forced") else "",
        "job": _job(entry),
        "name": _name(entry),
        "place": _place(entry),
        "type": _text(details.get("type", "")).lower().replace("_", " "),
        "target": _text(details.get("place") or _ORGANIZATION) if "place" in details else "",
        "user": _text(details.get("user") or _name(entry)),
    }
    found.setdefault("attempt", str(entry["target_id"]).partition(".")[2])
    return {name: text for name, text in found.items() if text}


def _word_in(part: str) -> str:
    return part.partition("{")[2].partition("}")[0]


def _details(entry: Mapping[str, Any]) -> dict[str, Any]:
    given = cast("dict[str, Any]", entry.get("details") or {})
    return {name: value for name, value in given.items() if value is not None}


def _job(entry: Mapping[str, Any]) -> str:
    number, path = _details(entry).get("job"), entry.get("path")
    named = f"job #{number}" if number else f"job {str(entry['target_id']).partition('.')[0]}"
    return f"{named} of {path}" if path else named


def _name(entry: Mapping[str, Any]) -> str:
    """Return the name of what was changed, or its id if the entry has no name."""
    details = _details(entry)
    return _text(details.get("name") or entry.get("path") or details.get("path") or entry["target_id"])


def _place(entry: Mapping[str, Any]) -> str:
    """Return the path of what was changed; the empty path is that of the organization."""
    if entry.get("path") == "" and entry["target_kind"] in ("group", "role"):
        return _ORGANIZATION
    return _text(entry.get("path") or "") or _name(entry)


def _changes(details: Mapping[str, Any]) -> str:
    names: Any = details.get("changed")
    if not isinstance(names, list):
        names = [name for name in details if name not in _NOT_CHANGES]
    return _text([str(name).replace("_", " ") for name in cast("list[Any]", names)])


def _text(value: Any) -> str:
    text = ", ".join(str(each) for each in cast("list[Any]", value)) if isinstance(value, list) else str(value)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}…"

"""What the handlers of the tree need of a running server."""

from dataclasses import dataclass

from terracrew.server.cloud_hosted.model import CloudCalls
from terracrew.server.db.seam import Database
from terracrew.server.http import request
from terracrew.server.objects import Objects
from terracrew.server.principals.authorize import Verb
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state.diff_process import DiffProcess
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.uploads.service import Staging
from terracrew.settings.server import ServerSettings


@dataclass(frozen=True)
class TreeContext:
    settings: ServerSettings
    db: Database
    objects: Objects
    keys: Keyring
    diffs: DiffProcess
    staging: Staging
    quotas: Quotas
    cloud_calls: CloudCalls
    rollout_rules: RolloutRules


class TreeCall(request.Call):
    @property
    def context(self) -> TreeContext:
        return self.app.state.api.tree

    def verb(self, usual: Verb) -> Verb:
        """Return the right that an operation takes which engines may use, too.

        An engine may read the states of its own module, which includes all that these operations show, and nothing else of the tree.
        """
        return Verb.STATE_READ if self.user.kind == "engine" else usual

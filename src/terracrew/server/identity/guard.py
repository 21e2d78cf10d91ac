"""What the check of a login needs: the database, the limits on wrong guesses, and the record of failures."""

from dataclasses import dataclass

from terracrew.server.audit.failures import Failures
from terracrew.server.db.seam import Database
from terracrew.server.identity.limits import Limits
from terracrew.server.secrets.keyring import Keyring


@dataclass(frozen=True)
class LoginGuard:
    db: Database
    limits: Limits
    keys: Keyring
    failures: Failures

"""Encrypts what a channel keeps secret."""

import msgspec

from terracrew.server.announcements.model import SealedChannel
from terracrew.server.notifications.model import ChannelSecrets
from terracrew.server.secrets.keyring import Keyring


def context(channel_id: str) -> str:
    return f"notification channel {channel_id}"


def seal(keys: Keyring, channel_id: str, secrets: ChannelSecrets) -> bytes:
    return keys.encrypt(msgspec.json.encode(secrets), context(channel_id))


def unseal(keys: Keyring, channel: SealedChannel) -> ChannelSecrets:
    if channel.sealed is None:
        return ChannelSecrets()
    return msgspec.json.decode(keys.decrypt(channel.sealed, context(channel.id)), type=ChannelSecrets)

"""Cloud identities: the ways into cloud accounts in which runners are started."""

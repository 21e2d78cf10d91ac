"""Which server a command uses, and with which token: options, environment, profiles, servers on this machine."""

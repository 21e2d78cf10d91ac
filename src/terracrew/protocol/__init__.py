"""Messages, events and specifications that the processes exchange. It imports nothing from server, runner or executor."""

"""What the processes say to each other; imports nothing of server, runner or executor."""

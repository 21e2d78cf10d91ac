"""The server's end of the fleet process: starts it when something is to be done, and passes on what it says."""

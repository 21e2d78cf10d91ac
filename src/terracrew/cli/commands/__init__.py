"""The commands: a file for each noun, and a package for a noun with many commands. `main.py` imports a command only when it is called."""

"""External settings: settings whose values are read from a vault, a file, a variable or a program when a process starts."""

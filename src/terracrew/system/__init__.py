"""What the operating system is asked for: files that survive a power cut, locks, processes, programs with bounds."""

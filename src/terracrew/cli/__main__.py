"""`python -m terracrew.cli`: the command line where its script is not on PATH."""

from terracrew.cli.main import main

main()

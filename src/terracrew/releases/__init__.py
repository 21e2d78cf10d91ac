"""The files of a release: their notes, their names and their signatures."""

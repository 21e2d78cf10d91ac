"""The settings of runners and servers: their schemas, the layers they are read from, and the names of all variables."""

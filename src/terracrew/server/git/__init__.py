"""The server's own copies of the repositories that it watches: it fetches them, merges in them and reads their files."""

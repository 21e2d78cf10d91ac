"""The dispatcher `docker`: each executor is a container of its own. Needs the extra `docker`; nothing else imports it."""

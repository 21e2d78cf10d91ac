"""The dispatcher `kubernetes`: each executor is the pod of a Job of its own. Needs the extra `kubernetes`; nothing else imports it."""

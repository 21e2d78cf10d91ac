"""The audit log: who changed what, from where and with which credential; failed logins are counted."""

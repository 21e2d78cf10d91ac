"""The pages of schedules: the list, the form that makes or changes one, and the panel on the pages of groups and modules."""

"""The pages of notifications: the channels of a place, one channel with what it has sent, and the panel on other pages."""

"""The runners pages: the list, one runner, and the forms that add, change, assign, drain and remove it."""

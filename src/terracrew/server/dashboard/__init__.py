"""The pages for people: one file or package for each noun, with its templates in `templates/<noun>/`."""

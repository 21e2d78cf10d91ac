"""The pages for people: one file for each noun, with its templates in the folder of the same name."""

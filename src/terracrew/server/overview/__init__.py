"""The overview: what needs a person, and the figures of jobs and runners, for pages, the API and the command line."""

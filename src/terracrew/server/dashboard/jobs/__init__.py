"""The jobs pages: the handlers, the rows of lists of jobs, and what the page of one job shows."""

"""A file or a folder for each question that a run can answer: its words, its tables and its figures."""

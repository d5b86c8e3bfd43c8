"""Figures for papers, slides and pages: one kind of question each, on a sheet of a given size."""

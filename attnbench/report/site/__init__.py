"""The runs of a folder as a site: a page for each, trends, and an index; plain files for any static host."""

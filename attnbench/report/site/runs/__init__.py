"""The runs of a site: what there is, and where each one goes."""

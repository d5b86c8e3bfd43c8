"""The version, alone, so that packaging reads it without importing anything else."""

__version__ = "0.1.0"

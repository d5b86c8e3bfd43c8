"""The suites that come with the project, as package data."""

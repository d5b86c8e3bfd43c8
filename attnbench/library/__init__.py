"""The door for Python: what a command does beyond parsing and printing is a function here, with the options of the command."""

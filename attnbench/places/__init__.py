"""The places where jobs are done: a place takes steps of a schedule, and gives a record for each."""

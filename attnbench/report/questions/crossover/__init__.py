"""The question from which length on one method is faster than another."""

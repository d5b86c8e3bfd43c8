"""How time, memory and state grow with length: the summary, tables by length, speed-ups and the long form."""

"""The question how small a slow-down is still found on this machine, and how often one is found where there is none."""

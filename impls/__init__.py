"""The attentions, one folder a family; they know only attnbench.api."""

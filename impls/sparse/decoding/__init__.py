"""Decoding by sparse patterns."""

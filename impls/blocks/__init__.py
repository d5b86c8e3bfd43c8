"""Attention in which every query chooses blocks of keys: MoBA and NSA."""

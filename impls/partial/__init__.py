"""Building blocks of several families: softmax over a part of the keys, so that parts can be merged, and a cache of tokens."""

"""What several families are built from: softmax over a part of the keys, so that parts can be merged; a cache of tokens."""

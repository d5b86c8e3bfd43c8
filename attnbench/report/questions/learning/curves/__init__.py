"""Learning curves: held-out loss and accuracy against updates and against time."""

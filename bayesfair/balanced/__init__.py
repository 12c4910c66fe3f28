"""The cheapest balanced labels: annealing with the groups' duals, exact transport, descent; no sampler."""

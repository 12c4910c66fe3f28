"""Modes of the posterior: found by short runs from many starts, weighed by jumps, and crossed by them."""

"""The moves that ship, one file each; what a move is stands in `bayesfair.gibbs.sweep`."""

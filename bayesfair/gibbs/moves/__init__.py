"""The moves of the package, one file each; `bayesfair.gibbs.sweep` defines what a move is."""

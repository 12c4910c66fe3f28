"""The scaling of a data frame's columns before a fit: a note in its `attrs`, kept by the fit to scale new rows alike."""

NOTE = "bayesfair_scaling"


def with_note(scaled, mean, deviation):
    """The data frame (x - mean) / deviation, with a note of both, {column: number}."""
    scaled.attrs[NOTE] = {"mean": mean, "deviation": deviation}
    return scaled


def noted_scaling(X):
    """The note {"mean": ..., "deviation": ...} of a data frame; None without one."""
    return getattr(X, "attrs", {}).get(NOTE)


def scaled_alike(X, scaling):
    """New rows, a data frame, scaled by such a note."""
    if scaling is None:
        return X
    return X.assign(**{name: (X[name] - mean) / scaling["deviation"][name] for name, mean in scaling["mean"].items()})

"""What a run keeps of its table's columns: the scaling before the fit, levels of categories, indicators."""

NOTE = "bayesfair_scaling"  # in the `attrs` of a data frame that is scaled


def with_note(scaled, mean, deviation):
    """The data frame (x - mean) / deviation, with a note of both, {column: number}."""
    scaled.attrs[NOTE] = {"mean": mean, "deviation": deviation}
    return scaled


def noted_scaling(X):
    """The note {"mean": ..., "deviation": ...} of a data frame; None without one."""
    return getattr(X, "attrs", {}).get(NOTE)


def units_of(settings):
    """The scaling of columns before the run, {column: (mean, standard deviation)}, by its settings."""
    scaling = _names(settings).get("scaling") or {"mean": {}, "deviation": {}}
    return {name: (mean, scaling["deviation"][name]) for name, mean in scaling["mean"].items()}


def scaled_alike(X, settings):
    """New rows, a data frame, scaled as those of the run."""
    return X.assign(**{name: (X[name] - mean) / deviation for name, (mean, deviation) in units_of(settings).items()})


def levels_of(settings):
    """Names of the levels of every column of codes, as in a mixture's table: {column: (level 0, ...)}."""
    names = _names(settings)
    columns = zip(names.get("categorical", ()), names.get("levels", ()))
    return {name: tuple(map(str, levels)) for name, levels in columns}


def indicators_of(settings):
    """Names of the indicator columns, which are 0 except for rows of one level, as in the table of the Gibbs posterior."""
    mixed = _names(settings).get("mixed") or {}
    return frozenset(mixed["names"][mixed["n_numbers"] :]) if mixed.get("where") else frozenset()


def _names(settings):
    names = settings.get("names", {})
    return names if isinstance(names, dict) else {}

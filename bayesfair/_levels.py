"""Categories of a table that was clustered, and its scaling, by the settings of the run."""


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


def units_of(settings):
    """The scaling of columns before the run, {column: (mean, standard deviation)}, which a scaler removed."""
    scaling = _names(settings).get("scaling") or {"mean": {}, "deviation": {}}
    return {name: (mean, scaling["deviation"][name]) for name, mean in scaling["mean"].items()}

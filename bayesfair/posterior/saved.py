"""What the estimators' `save` and `load` have in common: settings as JSON, in a file of the posterior."""

import json
import os

import numpy as np

from bayesfair.gibbs import Loss
from bayesfair.posterior.files import read_tree

__all__ = ["plain_parameters", "read_run"]


def plain_parameters(estimator):
    """Constructor parameters as JSON holds them; a loss of the user's own and a RandomState become None."""
    return json.loads(json.dumps(estimator.get_params(deep=False), default=_plain))


def _plain(value):
    return None if isinstance(value, (Loss, np.random.RandomState)) else np.asarray(value).tolist()


def read_run(path, estimator_class, needed=()):
    """The tree, with the groups `needed`, and the settings that an estimator of this class saved to `path`.

    Raises
    ------
    FileNotFoundError: no such file. ValueError: a damaged file, or one that holds something else.
    """
    tree = read_tree(path)
    settings = json.loads(tree.attrs.get("settings", "{}"))
    if settings.get("estimator") != estimator_class.__name__ or not set(needed) <= set(tree.children):
        raise ValueError(
            f"{os.fspath(path)!r} holds a posterior but not a run of {estimator_class.__name__}. "
            "Read it with bayesfair.posterior.read_tree, or fit and save again."
        )
    return tree, settings

"""Names that earlier versions had: refused by one sentence that says what to use."""

from functools import wraps

from bayesfair._check import Refusal

_SEARCH = "Use modes=bf.gibbs.ModeSearch"
ARGUMENTS = {
    "composition": "It is a setting of the target: use target=bf.gibbs.Joint(composition=...), Cut or Optimal.",
    "crossed": "It is a setting of the target: use target=bf.gibbs.Labels(crossed=...).",
    "fairlet_move": "It is a setting of the target: use target=bf.gibbs.Joint(fairlet_move=...), or Cut.",
    "inner_steps": "It is a setting of the target: use target=bf.gibbs.Cut(inner_steps=...).",
    "keep_fairlets": "It is a setting of the target: use target=bf.gibbs.Joint(keep_fairlets=...), or Cut.",
    "mesh": "Chains are joblib tasks: use n_jobs=, or joblib.parallel_config for processes and clusters.",
    "min_balance": "It is a setting of the target: use target=bf.gibbs.Labels(min_balance=...).",
    "mode_jumps": f"{_SEARCH}(jumps=...), or modes=None for no search.",
    "num_starts": f"{_SEARCH}(num_starts=...), or modes=None for no search.",
    "power": "Use loss=bf.gibbs.Minkowski(power=...).",
    "reallocation": "Leave it out: there is one kernel, which serves every size.",
    "size_max": "It is a setting of the target: use target=bf.gibbs.Labels(size_max=...).",
    "size_min": "It is a setting of the target: use target=bf.gibbs.Labels(size_min=...).",
    "tempering": "Replicas made no round trip beyond 100 rows. Use modes=, whose jumps cross between modes.",
}


def refusing(withdrawn: dict[str, str]):
    """Decorate an `__init__` so that these keywords raise a TypeError with their sentence; its signature stays."""

    def decorated(init):
        @wraps(init)
        def checked(self, *args, **settings):
            for name in settings:
                if name in withdrawn:
                    raise TypeError(Refusal(f"{type(self).__name__}({name}=...) is withdrawn. {withdrawn[name]}"))
            init(self, *args, **settings)

        return checked

    return decorated

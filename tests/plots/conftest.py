import matplotlib
import pytest
from draws import tree_of_draws


@pytest.fixture(autouse=True)
def closed_figures():
    """Pictures are drawn off screen and closed; the back end of whoever runs the tests is put back."""
    from matplotlib import pyplot as plt

    before = matplotlib.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


@pytest.fixture(scope="session")
def make_tree():
    return tree_of_draws

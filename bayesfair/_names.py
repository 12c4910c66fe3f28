"""Classes of libraries that are loaded when needed, under the names that annotations use."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from networkx import Graph as Graph
    from pandas import DataFrame as DataFrame
    from scipy.sparse import csr_array as csr_array
    from xarray import DataArray as DataArray
    from xarray import Dataset as Dataset
    from xarray import DataTree as DataTree
else:
    Axes = DataArray = DataFrame = Dataset = DataTree = Graph = csr_array = Any

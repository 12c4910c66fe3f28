"""Sphinx configuration of the bayesfair site; `make docs` builds it without network."""

import hashlib
import inspect
import os
from pathlib import Path

import bayesfair

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
FAST = os.environ.get("BAYESFAIR_FAST") == "1"

project = "bayesfair"
author = copyright = "The bayesfair developers"  # Sphinx's own name
release = version = bayesfair.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",  # formulas without network
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "conf.py", "check_links.py", "images"]
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"(?!bayesfair\.).*"),  # other packages' pages are not at hand
    # Constants, an alias, and a class of another page: a row in a table, no entry.
    (r"py:obj", r"bayesfair\.\w+\.([A-Z_]+|BalanceConstraint)|bayesfair\.fairlets\.Minkowski"),
]
smartquotes = False  # "kmeans" is a value to type, not a quotation

# Docstrings
default_role = "py:obj"  # `code` in a docstring is code, with a link where the site has a page for it
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, not entries of the index
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autosummary_generate = False
add_module_names = False
toc_object_entries_show_parents = "hide"

# Pages and notebooks
source_suffix = {".md": "myst-nb", ".py": "myst-nb"}
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_in_temp = True  # what a notebook writes does not stay
nb_execution_raise_on_error = True
nb_execution_timeout = 1200
nb_merge_streams = True


os.environ.setdefault("PYTHONWARNINGS", "ignore:IProgress not found")  # notebooks here have no widgets

OF_TYPES = ("The type of the None singleton", "str(object=", "Returns True when the argument")


def _source_hash():
    """Of all code of the package: outputs of older code are never shown."""
    files = sorted(Path(bayesfair.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


nb_execution_cache_path = str(HERE / "_build" / "notebooks" / f"{_source_hash()}{'-fast' if FAST else ''}")

# HTML
html_theme = "pydata_sphinx_theme"
html_title = "bayesfair"
html_static_path = ["_static"]
html_css_files = ["house.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "install": [], "limits": [], "citation": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "bayesfair"},
    "show_prev_next": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def skip(app, what, name, obj, skipped, options):
    """Fields of NamedTuples, which their class describes, and what scikit-learn's metadata routing adds."""
    text = inspect.getdoc(obj) or ""
    of_field = text.startswith("Alias for field number")
    return True if of_field or (name.startswith("set_") and name.endswith("_request")) else None


def say_nothing_of_types(app, what, name, obj, options, lines):
    """Drop the docstrings of Python's own types, which values have, and of rooms, whose page says it already."""
    if what == "data":
        lines[:] = ["A constant, described below."]
    elif what == "module" or (lines and lines[0].startswith(OF_TYPES)):
        lines.clear()


def copy_notebooks(app):
    """Copy examples/*.py into docs/tutorials/, where Sphinx sees them; only what changed is written."""
    folder = HERE / "tutorials"
    sources = {path.name: path.read_text() for path in EXAMPLES.glob("[0-9]*.py")}
    for old in set(folder.glob("*.py")) - {folder / name for name in sources}:
        old.unlink()
    for name, text in sources.items():
        copy = folder / name
        if not copy.exists() or copy.read_text() != text:
            copy.write_text(text)


def setup(app):
    app.connect("builder-inited", copy_notebooks)
    app.connect("autodoc-process-docstring", say_nothing_of_types)
    app.connect("autodoc-skip-member", skip)

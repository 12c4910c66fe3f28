"""Sphinx extension of the house: its docstrings, links that may lead nowhere, and notebooks copied from examples/."""

import inspect
import re
from pathlib import Path

from docstrings import to_rst, with_settings
from docutils import nodes
from sphinx import addnodes
from sphinx.ext import autosummary
from sphinx.util.docutils import SphinxRole

from bayesfair._settings import declarations

EXAMPLES = Path(__file__).parents[2] / "examples"
NUMPYDOC = re.compile(
    r"^(\*{0,2}\w+(, \w+)* : .*|(Returns|Notes|References)\n-{3,})$", re.MULTILINE
)  # which napoleon renders
FIELD = "Alias for field number"  # what a NamedTuple says of a field that nobody described


class HouseRole(SphinxRole):
    """`code` of a docstring: literal text, and a link where it names something on the site."""

    def run(self):
        literal = nodes.literal(self.rawtext, self.text)
        context = {f"py:{kind}": self.env.ref_context.get(f"py:{kind}") for kind in ("module", "class")}
        target = self.text.split("(")[0].removeprefix("bf.").strip()
        reference = addnodes.pending_xref(
            self.rawtext, literal, refdomain="py", reftype="obj", reftarget=target, refdoc=self.env.docname, **context
        )
        reference["house"] = True
        return [reference], []


def find_from_the_front_door(app, env, node, contnode):
    """`gibbs.Loss` is bayesfair.gibbs.Loss; what is not on the site stays plain code, without a warning."""
    if not node.get("house"):
        return None
    target = f"bayesfair.{node['reftarget']}"
    python = env.get_domain("py")
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contnode) or contnode


def write_rst(app, what, name, obj, options, lines):
    if what == "data":  # the docstring is that of its type
        lines[:] = ["A table of its own, described below."]
        return
    if NUMPYDOC.search("\n".join(lines)):
        return
    rst = to_rst("\n".join(lines), _parameters(obj))
    lines[:] = (with_settings(rst, declarations(obj)) if hasattr(obj, "get_params") else rst).splitlines()


def _parameters(obj):
    try:
        return tuple(inspect.signature(obj).parameters)
    except (TypeError, ValueError):
        return ()


def skip(app, what, name, obj, skipped, options):
    """Fields of NamedTuples, which their class describes, and what scikit-learn's metadata routing adds."""
    text = inspect.getdoc(obj) or ""
    return True if text.startswith(FIELD) or (name.startswith("set_") and name.endswith("_request")) else None


def copy_notebooks(app):
    """examples/*.py into docs/tutorials/, where Sphinx can see them; only what changed is written."""
    folder = Path(app.srcdir) / "tutorials"
    sources = {path.name: path.read_text() for path in EXAMPLES.glob("[0-9]*.py")}
    for old in set(folder.glob("*.py")) - {folder / name for name in sources}:
        old.unlink()
    for name, text in sources.items():
        copy = folder / name
        if not copy.exists() or copy.read_text() != text:
            copy.write_text(text)


def setup(app):
    autosummary.WELL_KNOWN_ABBREVIATIONS += ("eq.",)  # they do not end a summary
    app.add_role("house", HouseRole())
    app.connect("builder-inited", copy_notebooks)
    app.connect("autodoc-process-docstring", write_rst)
    app.connect("autodoc-skip-member", skip)
    app.connect("missing-reference", find_from_the_front_door)
    return {"parallel_read_safe": True}

"""Every link, picture and anchor inside the built site must lead somewhere: python docs/check_links.py docs/_build/html."""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

IGNORED = ("genindex", "search", "py-modindex")


class Page(HTMLParser):
    """The anchors of a page and what it links to."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = {"", "top"}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs[name] for name in ("id", "name") if attrs.get(name)}
        self.links += [attrs[name] for name in ("href", "src") if attrs.get(name) is not None]


@cache
def page(path):
    return Page(path.read_text(encoding="utf-8"))


def broken(path, link):
    """What is wrong with `link` on the page at `path`, or None."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return "leaves the site for a script or style" if link.startswith("//") else None
    goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    goal = goal / "index.html" if goal.is_dir() else goal
    if not goal.is_file():
        return "no such file"
    if goal.suffix == ".html" and unquote(parts.fragment) not in page(goal).anchors:
        return "no such anchor"
    return None


def main(root):
    root = Path(root).resolve()
    page.cache_clear()
    pages = [path for path in sorted(root.rglob("*.html")) if path.stem not in IGNORED and "_static" not in path.parts]
    found = [(path, link, why) for path in pages for link in page(path).links if (why := broken(path, link))]
    for path, link, why in found:
        print(f"{path.relative_to(root)}: {link}: {why}")
    print(f"{len(pages)} pages, {sum(len(page(path).links) for path in pages)} links, {len(found)} broken")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""What a page is made of."""

from html.parser import HTMLParser

TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "header",
    "h1",
    "nav",
    "a",
    "main",
    "section",
    "h2",
    "h3",
    "p",
}
TAGS |= {"strong", "div", "dl", "dt", "dd", "figure", "img", "figcaption"}
TAGS |= {"table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary"}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "href", "id", "class", "role", "tabindex", "scope"}
ATTRIBUTES |= {"style", "src", "alt", "aria-label"}


class Elements(HTMLParser):
    """What a page is made of: `tags` with their attributes, and its `text`."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.text = [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data

    def strange(self):
        """Tags, attributes and addresses that no page has."""
        found = {tag for tag, _ in self.tags} - TAGS
        found |= {name for _, attributes in self.tags for name in attributes} - ATTRIBUTES
        addresses = [attributes[name] for _, attributes in self.tags for name in ("src", "href") if name in attributes]
        return found | {address for address in addresses if not address.startswith(("data:image/png;base64,", "#"))}

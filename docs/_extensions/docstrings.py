"""The house's docstrings as reStructuredText: they are plain text with `code`, sections and "name: what it is" items."""

import re

__all__ = ["to_rst", "with_settings"]

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
EXCEPTION = r"[A-Z]\w*(?:Error|Warning|Interrupt)"
KEPT = re.compile(r"(``[^`]+``|`[^`]+`|(?<![\w*])\*[^\s*](?:[^*\n]*[^\s*])?\*(?![\w*]))")  # code and *emphasis*
ATTRIBUTE = re.compile(r"(?<![\w.])([A-Za-z]\w*_)(?![\w{(])")


def to_rst(text, parameters=()):
    """`text` with everything escaped that only looks like markup; `parameters` are the names that begin an item."""
    preamble, *rest = SECTION.split(text.strip("\n"))
    parts = [_prose(preamble)]
    for title, body in zip(rest[::2], rest[1::2]):
        parts += [f".. rubric:: {title}", _section(title, body.strip("\n"), parameters)]
    return "\n\n".join(part for part in parts if part) + "\n"


def with_settings(rst, settings):
    """`rst` with what `settings`, {name: Declared}, say of numbers, at the end of each item."""

    def told(item):
        of_item = [settings[name] for name in re.findall(r"``(\w+)``", item[1]) if name in settings]
        numbers = "; ".join(dict.fromkeys(one.words() for one in of_item if one.numbers))
        return f"{item[0]} *{numbers[0].upper()}{numbers[1:]}.*" if numbers else item[0]

    return re.sub(r"^(``\w+``(?:, ``\w+``)*)\n    .*$", told, rst, flags=re.MULTILINE)


def _section(title, body, parameters):
    body, *examples = re.split(r"\n\s*\n(?=>>>)", body, maxsplit=1)
    return "\n\n".join([_content(title, body, parameters), *examples])


def _content(title, body, parameters):
    if title == "Parameters" and parameters:
        return _items(body, "|".join(map(re.escape, sorted(parameters, key=len, reverse=True))))
    if title == "Raises":
        return _items(body, EXCEPTION)
    return _attributes(body) if title == "Attributes" else _prose(body)


def _items(body, name):
    """Each paragraph a definition list of "a, b: text" items, several of which may share a line, or prose."""
    return "\n\n".join(_list(paragraph, name) for paragraph in re.split(r"\n\s*\n", body))


def _list(body, name):
    text = " ".join(line.strip() for line in body.splitlines())
    found = list(re.finditer(rf"(?:^|(?<=[.;)\]`'\"] ))((?:{name})(?:, (?:{name}))*): ?", text))
    if not found or found[0].start() > 0:
        return _prose(body)
    ends = [match.start() for match in found[1:]] + [len(text)]
    return "\n".join(_item(match[1], text[match.end() : end].strip()) for match, end in zip(found, ends))


def _item(names, text):
    text = re.sub(r"^(?=\w+[.)])", r"\\", escape(text))  # "K." alone would begin a numbered list
    return ", ".join(f"``{name}``" for name in names.split(", ")) + f"\n    {text or '...'}\n"


def _attributes(body):
    """One bullet for each sentence that begins with a name ending in an underscore; paragraphs otherwise."""
    text = " ".join(line.strip() for line in body.splitlines())
    if not re.match(r"\w+_\b", text):
        return _items(body, r"\w+")
    return "\n".join(f"* {escape(part)}" for part in re.split(r"(?<=[.)]) (?=\w+_(?![\w{(]))", text))


def _prose(text):
    """Paragraphs escaped, examples as they are."""
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(part if ">>>" in part else escape(part) for part in paragraphs).strip("\n")


def escape(text):
    """Text with `code` kept, names ending in an underscore made code, and rST's own marks made harmless."""
    parts = KEPT.split(text)
    parts[::2] = [_escape_plain(part) for part in parts[::2]]
    for place in range(1, len(parts), 2):
        parts[place] = _apart(parts[place - 1], parts[place], parts[place + 1])
    return "".join(parts)


def _escape_plain(text):
    pieces = ATTRIBUTE.split(text)
    pieces[::2] = [re.sub(r"(?:_(?!\w)|[*|\\])", r"\\\g<0>", piece) for piece in pieces[::2]]
    pieces[1::2] = [f"``{name}``" for name in pieces[1::2]]
    return "".join(pieces)


def _apart(before, code, after):
    """Code between word characters needs an invisible space on either side."""
    left = "\\ " if before[-1:].isalnum() else ""
    right = "\\ " if after[:1].isalnum() else ""
    return f"{left}{code}{right}"

"""HTML as a reader sees it, so that tests speak of cells and attributes and not of spaces between tags."""

from html.parser import HTMLParser

VOID = {"img", "input", "br", "meta"}


class Element:
    """A tag with its attributes and what is in it."""

    def __init__(self, tag: str, attributes: dict[str, str | None]) -> None:
        self.tag, self.attributes = tag, attributes
        self.inside: list[Element | str] = []

    @property
    def text(self) -> str:
        """What is read in it, spaces between words only."""
        return " ".join(self._all_text().split())

    def _all_text(self) -> str:
        return "".join(each if isinstance(each, str) else each._all_text() for each in self.inside)

    def all(self, tag: str, **attributes: str) -> "list[Element]":
        """The elements of a tag in it, in order, `class_` and `data_row` for `class` and `data-row`."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        found = []
        for each in self.inside:
            if isinstance(each, Element):
                fits = each.tag == tag and wanted.items() <= each.attributes.items()
                found += [*([each] if fits else []), *each.all(tag, **attributes)]
        return found

    def tags(self) -> set[str]:
        """Every tag in it."""
        return {tag for each in self.inside if isinstance(each, Element) for tag in {each.tag} | each.tags()}

    def rows(self) -> list[list[str]]:
        """The texts of the cells of a table's body."""
        return [[cell.text for cell in row.inside if isinstance(cell, Element)]
                for body in self.all("tbody") for row in body.all("tr")]  # fmt: skip


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.open[-1].inside.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def parsed(html: str) -> Element:
    """Return a piece of HTML as a tree; every tag must be closed."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    assert len(parser.open) == 1, f"<{parser.open[-1].tag}> stays open"
    return parser.open[0]

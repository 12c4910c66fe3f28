"""The summary for readers: numbers as ArviZ prints them, and below them the sentences that have to be read with them."""

from html import escape
from textwrap import fill

from arviz_stats.summary import SummaryDataFrame

WIDTH = 100  # letters of a line of sentences


class SummaryTable(SummaryDataFrame):
    """A table of `arviz_stats.summary` with `sentences`, {what they are about: text}, which are printed too."""

    _metadata = [*SummaryDataFrame._metadata, "sentences"]  # noqa: RUF012

    def __init__(self, *arguments, sentences=None, **settings):
        super().__init__(*arguments, **settings)
        self.sentences = sentences or {}

    @property
    def _constructor(self):
        return SummaryTable

    @property
    def _shown(self):
        """The sentences that are not part of another one."""
        told = self.sentences.values()
        return [text for text in told if not any(text in other for other in told if other != text)]

    def __repr__(self):
        return "\n\n".join([super().__repr__(), *(fill(text, WIDTH) for text in self._shown)])

    def _repr_html_(self):
        return super()._repr_html_() + "".join(f"<p>{escape(text)}</p>" for text in self._shown)


def with_sentences(table: SummaryDataFrame, sentences: dict[str, str]) -> SummaryTable:
    """The table with sentences."""
    return SummaryTable(table, fmt_map=table._fmt_map, sentences=sentences)

"""Shares in percent for readers."""


def percent(share):
    """A share in whole percent; only 0 and 1 are shown as 0% and 100%."""
    text = f"{share:.0%}"
    if share < 1 and text == "100%":
        return "over 99%"
    return "under 1%" if share > 0 and text == "0%" else text

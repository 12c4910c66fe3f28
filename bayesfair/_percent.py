"""Shares as people read them."""


def percent(share):
    """A share in whole percent; what is not none or all of it is never told to be."""
    text = f"{share:.0%}"
    if share < 1 and text == "100%":
        return "over 99%"
    return "under 1%" if share > 0 and text == "0%" else text

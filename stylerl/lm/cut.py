"""A completion that was cut at the token limit."""


def whole_lines(text: str) -> str:
    """The text up to its last line end: the line that was cut is dropped."""
    return text[: text.rfind("\n") + 1]

"""Regular expressions compiled at first use: compiling hundreds of them takes longer than a command's work."""

import re
from typing import Any, cast


class _LazyPattern:
    def __init__(self, expression: str, flags: int) -> None:
        self.pattern, self._flags = expression, flags

    def __getattr__(self, name: str) -> Any:
        method = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, method)  # later lookups find the attribute and skip this function
        return method


def lazy_pattern(expression: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when one of its methods is first looked up.

    >>> lazy_pattern("b+", re.IGNORECASE).sub("-", "aBBc")
    'a-c'
    """
    return cast("re.Pattern[str]", _LazyPattern(expression, int(flags)))

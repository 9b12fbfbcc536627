"""Regular expressions that are compiled at their first use: hundreds of them cost a command more than its work."""

import re
from typing import Any, cast


class _LazyPattern:
    def __init__(self, expression: str, flags: int) -> None:
        self.pattern, self._flags = expression, flags

    def __getattr__(self, name: str) -> Any:
        method = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, method)  # found without this function from now on
        return method


def lazy_pattern(expression: str, flags: int = 0) -> re.Pattern[str]:
    """Return what `re.compile` returns, compiled when a method of it is first looked up.

    >>> lazy_pattern("b+", re.IGNORECASE).sub("-", "aBBc")
    'a-c'
    """
    return cast("re.Pattern[str]", _LazyPattern(expression, int(flags)))

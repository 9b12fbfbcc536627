"""A place: what figures share that can be compared, as a user names it, resolved once."""

from typing import NamedTuple

from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.errors import UsageError, unknown_name


class Place(NamedTuple):
    """A benchmark's config, split and mode."""

    benchmark: str
    config: str
    split: str
    mode: str

    def __str__(self) -> str:
        """Return it as it stands in addresses: `benchmark/config/split/mode`."""
        return "/".join(self)


def place_of(name: str, config: str | None = None, split: str | None = None, mode: str | None = None) -> Place:
    """Return the place that a user means by `name` or `name/config`; what is left out is the benchmark's default.

    >>> place_of("mini-text2kg")
    Place(benchmark='mini-text2kg', config='sentences', split='test', mode='reference')
    >>> str(place_of("kbbench/genres-corpora/docred", mode="fixed"))
    'genres-corpora/docred/test/fixed'

    Raises:
        UsageError: a benchmark, config, split or mode that does not exist.
    """
    dataset, _, in_name = name.removeprefix("kbbench/").partition("/")
    found = benchmark_of(dataset)
    config = config or in_name or None
    chosen = []
    for kind, wanted, known, usual in (
        ("config", config, found.data.configs, found.data.configs[0]),
        ("split", split, found.data.splits, found.data.default_split),
        ("mode", mode, found.scoring.modes, found.scoring.modes[0]),
    ):
        if wanted is not None and wanted not in known:
            raise unknown_name(f"{kind} of {found.dataset}", wanted, known)
        chosen.append(wanted or usual)
    return Place(found.dataset, *chosen)


def as_place(text: object) -> Place:
    """Return the place of its text, `benchmark/config/split/mode`.

    Raises:
        UsageError: it is no place; whatever a stranger sends ends here.
    """
    parts = str(text).split("/")
    if len(parts) == 4 and all(parts):
        found = benchmark_of(parts[0])
        if parts[1] in found.data.configs and parts[2] in found.data.splits and parts[3] in found.scoring.modes:
            return Place(*parts)
    raise UsageError(f"{str(text)[:80]!r} is no place of the board; expected benchmark/config/split/mode. Choose one.")

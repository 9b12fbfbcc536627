"""The private split: `kg` and `table` again, with invented names and other years, as only who has the seed can make it.

A model that knows the public questions by heart knows nothing of these: the difference of its scores on both says how
much of them it had learned by heart. Whoever is named is renamed by a bijection of words that a key decides
(`invented_names`), the same in question, gold, aliases, triples and cells; years move by a constant; every program is
executed again on all units. An instance whose program no longer gives its gold, or whose question could not be renamed
as literally as its cells, is left out and counted. The hybrid subsets rest on articles, in which nobody can rename
everything; they have no private split.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.configs import configs
from kbbench_hf.benchmarks.ska_bench.construction.datasets import build, write_audit
from kbbench_hf.benchmarks.ska_bench.construction.invented_names import Renamed
from kbbench_hf.benchmarks.ska_bench.construction.private_graph import rename_graph
from kbbench_hf.benchmarks.ska_bench.construction.private_tables import rename_tables
from kbbench_hf.benchmarks.ska_bench.construction.public_files import download
from kbbench_hf.benchmarks.ska_bench.construction.release import make
from kbbench_hf.benchmarks.ska_bench.units import Instance, Pool, Release
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder

RENAMERS: Mapping[str, Callable[[Sequence[Instance], Pool, str], Renamed]] = {
    "kg": rename_graph,
    "table": rename_tables,
}
_CARD = Path(__file__).parents[1] / "texts" / "private_card.md"


def rename(release: Release, seed: str) -> tuple[Release, dict[str, str]]:
    """Return the release with invented names, without its hybrid subsets, and why instances were left out, by id."""
    parts = {
        subset: renamer([each for each in release.instances if each.subset == subset], release.pools[subset], seed)
        for subset, renamer in RENAMERS.items()
        if subset in release.pools
    }
    instances = [instance for part in parts.values() for instance in part.instances]
    left_out = {name: why for part in parts.values() for name, why in part.left_out.items()}
    return Release(instances, {subset: part.pool for subset, part in parts.items()}), left_out


def build_private(source: Path | None, out: Path, wanted: Sequence[str] | None, seed: str) -> None:
    """Build the private split of `ska-open` that a seed makes, from a folder as `build_open` takes it, or from None.

    The seed itself is stored nowhere.

    Raises:
        UsageError: an empty seed, or a config of a hybrid subset.
        DataError: a file of the source is absent or malformed; nothing is written.
        KBBenchError: the audit has a figure above its limit that the card does not waive; the dataset stands.
    """
    if not seed.strip():
        raise UsageError("The seed is empty; expected a secret that nobody can guess. Name one with --private.")
    known = configs()
    for name in wanted or ():
        if name in known and known[name].subset not in RENAMERS:
            raise UsageError(
                f"{name} is of a hybrid subset, which has no private split; expected configs of kg or table."
            )
    release, left_out = rename(make(download() if source is None else source, tuple(RENAMERS)), seed)
    counted = "".join(f"- {n:,} instances: {why}\n" for why, n in Counter(left_out.values()).most_common())
    card = _CARD.read_text(encoding="utf-8").replace("LEFT OUT", counted or "- none\n")
    build(card, release, out, wanted)
    if wanted is None:
        write_audit(DatasetFolder(out))

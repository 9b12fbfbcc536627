"""Loader of datasets by name."""

from typing import TYPE_CHECKING

from kbbench_hf.benchmarks import benchmark, find_dataset, name_of_path, rows_of_code, task_key_of
from kbbench_hf.errors import unknown_name
from kbbench_hf.files.datasets import NAMESPACE
from kbbench_hf.knowledge_base.store import KnowledgeBase as KnowledgeBase  # an old path

if TYPE_CHECKING:
    from datasets import Dataset


def load(name: str, split: str | None = None, revision: str | None = None) -> "Dataset":
    """Return a split of a dataset's config.

    Args:
        name: `NAME` or `NAME/CONFIG`, with or without `kbbench/`; the default config where none is named.
        split: the split; where None the one that the benchmark scores, or what there is; `all` for all rows.
        revision: a commit of the Hub's copy; what was built here or is shipped is then not looked at.

    Raises:
        UsageError: a name that does not exist; the message has the closest one, or the command that builds it.

    >>> load("mini-text2kg/sentences").num_rows, load("mini-stark/nodes").num_rows
    (48, 281)
    """
    from datasets import Dataset, load_dataset

    dataset, _, config = name_of_path(name).removeprefix(f"{NAMESPACE}/").partition("/")
    if without := rows_of_code(dataset):
        task_key = task_key_of(dataset, config or None, split)
        return Dataset.from_list(benchmark(dataset).data.load(without, task_key.config, task_key.split).rows)
    folder = find_dataset(dataset, revision, whole=False)
    configs = folder.configs()
    config = config or next(iter(configs))
    if config not in configs:
        raise unknown_name(f"config of {dataset}", config, configs)
    splits = configs[config]
    if split is None:
        usual = benchmark(dataset).data.default_split
        split = usual if usual in splits else splits[0]
    if split not in (*splits, "all"):
        raise unknown_name(f"split of {dataset}/{config}", split, splits)
    wanted = splits if split == "all" else [split]
    files = {each: str(folder.file(f"data/{config}/{each}.parquet")) for each in wanted}
    loaded: Dataset = load_dataset("parquet", data_files=files, split=split)
    return loaded

"""Built datasets on disk: Parquet files, a dataset card, and a manifest with the SHA-256 of each file.

The layout is the Hub's, so that `datasets.load_dataset` reads the folder as it is:
`README.md`, `manifest.json`, `data/<config>/<split>.parquet`.

Builders write with it, and everything else reads. The revision of a dataset is a hash of its Parquet files: a change of
`_write_parquet` (compression, row groups, encodings) gives every dataset a new revision.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import NAMESPACE_URL, uuid5

from kbbench_hf.errors import DataError, UsageError, unknown_name
from kbbench_hf.files import file_sha256
from kbbench_hf.files.writing import whole_file, whole_folder, write_json_lines, write_text

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

NAMESPACE = "kbbench"
"""The organization of the datasets on the Hub, and the folder into which they are built."""
MANIFEST = "manifest.json"
RELEVANCE = "relevance"
"""The column of queries with the grades of their gold ids."""
CARD = "README.md"
ROW_GROUP_SIZE = 16_384
"""Rows per Parquet row group: small enough to stream, large enough to compress."""

SMALL_STEPS = {"encoding": "DELTA_BINARY_PACKED"}
"""Metadata of a list column whose numbers mostly ascend: it is delta-encoded."""

Id = str | int
"""An id of an example, node or question."""
Row = dict[str, Any]
"""One row of a table as a dictionary; its columns depend on the dataset."""
Tables = Mapping[str, Mapping[str, "pa.Table"]]
"""config -> split -> table. The first config is the dataset's default."""
Answers = Mapping[tuple[str, str, str], Sequence[Row]]
"""(config, split, system) -> predictions of a published system, one object per example."""
PREDICTIONS = "predictions"
"""The folder of published systems' predictions in a dataset: `CONFIG/SPLIT/SYSTEM.jsonl`."""


@dataclass(frozen=True)
class DatasetFolder:
    """A dataset built by `kbbench build`, or downloaded from the Hub."""

    path: Path

    def file(self, name: str) -> Path:
        """Return the path of one of the dataset's files."""
        return self.path / name

    @property
    def manifest(self) -> Row:
        """The manifest: `revision`, `files` (path -> `sha256`, `rows`), and of some `answers`, `version`, `left_out`.

        Raises:
            UsageError: the folder has none.
            DataError: it is damaged.
        """
        file = self.path / MANIFEST
        if not file.is_file():
            raise UsageError(
                f"{self.path} holds no {MANIFEST}; expected a dataset made by 'kbbench build'. Build it again."
            )
        manifest = read_json(file)
        files = manifest.get("files")
        whole = isinstance(manifest.get("revision"), str) and isinstance(files, dict)
        if not whole or not all(_is_entry(name, facts) for name, facts in cast(Row, files).items()):
            raise DataError(
                f"{file} is damaged; expected a revision, and the sha256 and rows of each file. Build the dataset "
                "again."
            )
        return manifest

    @property
    def revision(self) -> str:
        """The content hash of all data files, 40 hexadecimal digits; the same data gives the same revision."""
        return str(self.manifest["revision"])

    @property
    def left_out(self) -> Sequence[str]:
        """Sentences on what its builder could not take from the source; empty for most."""
        sentences: Sequence[str] = self.manifest.get("left_out", ()) if self.file(MANIFEST).is_file() else ()
        return sentences

    @property
    def is_private(self) -> bool:
        """Whether its card says `private`: it is not sent to models, and its gold is not shown in browsers."""
        card = self.path / CARD
        parts = card.read_text(encoding="utf-8").split("---\n", 2) if card.is_file() else []
        return len(parts) == 3 and not parts[0] and _says_private(parts[1])

    @property
    def canary(self) -> str:
        """The GUID on its card by which its texts are found in training data; empty for older builds."""
        card = self.path / CARD
        found = _CANARY.search(card.read_text(encoding="utf-8")) if card.is_file() else None
        return found[1] if found else ""

    def configs(self) -> dict[str, list[str]]:
        """Return config -> splits, in the order of the manifest: the first config is the default one."""
        splits: dict[str, list[str]] = {}
        for name in self.manifest["files"]:
            _, config, file = name.split("/")
            splits.setdefault(config, []).append(file.removesuffix(".parquet"))
        return splits

    def n_rows(self, split: str) -> dict[str, int]:
        """Return config -> its number of rows in a split; configs without splits (nodes, edges) have `full` only."""
        files = {tuple(name.split("/")[1:]): of["rows"] for name, of in self.manifest["files"].items()}
        parts = f"{split}.parquet", "full.parquet"
        return {config: rows for (config, part), rows in files.items() if part in parts}

    def table(self, config: str, split: str) -> "pa.Table":
        """Return one split as an Arrow table, read through a memory map.

        Raises:
            UsageError: the config or split does not exist; the message names those that do.
        """
        return self._parquet(config, split).read()  # read_table would import pandas

    def first_id(self, config: str, split: str) -> Id:
        """Return the id of a split's first example, without reading the others.

        Raises:
            UsageError: the config or split does not exist.
            LookupError: the split is empty, or has no ids.
        """
        first = next(self._parquet(config, split).iter_batches(1, columns=["id"]), None)
        ids = first["id"].to_pylist() if first is not None else []
        return cast(Id, ids[0])

    def _parquet(self, config: str, split: str) -> "pq.ParquetFile":
        import pyarrow.parquet as pq

        configs = self.configs()
        if config not in configs:
            raise unknown_name(f"config of {self.path}", config, configs)
        if split not in configs[config]:
            raise unknown_name(f"split of {self.path}, {config},", split, configs[config])
        return pq.ParquetFile(self.file(f"data/{config}/{split}.parquet"), memory_map=True)

    def rows(self, config: str, split: str) -> list[Row]:
        """Return one split as Python dictionaries."""
        return cast("list[Row]", self.table(config, split).to_pylist())

    def verify(self) -> None:
        """Compare every file with the manifest.

        Raises:
            DataError: a file is missing or differs; the message names it.
        """
        manifest = self.manifest
        for name, facts in {**manifest["files"], **manifest.get("answers", {})}.items():
            file = self.file(name)
            actual = file_sha256(file) if file.is_file() else "no file"
            if actual != facts["sha256"]:
                raise DataError(
                    f"{file} does not match its manifest: expected {facts['sha256']}, found {actual}. Build it again."
                )


@lru_cache(maxsize=64)  # pages read the same card repeatedly, and YAML is slow
def _says_private(front_matter: str) -> bool:
    import yaml

    metadata = yaml.safe_load(front_matter)
    return isinstance(metadata, dict) and metadata.get("private") is True


def _is_entry(name: str, facts: object) -> bool:
    """Return whether a manifest has a data file in the expected form."""
    return name.count("/") == 2 and isinstance(facts, dict) and {"sha256", "rows"} <= facts.keys()


def built(name: str) -> DatasetFolder | None:
    """Return a finished dataset in `./kbbench`; None if there is none, or if the name has a slash."""
    folder = Path(NAMESPACE) / name
    return DatasetFolder(folder) if folder.name == name != ".." and (folder / MANIFEST).is_file() else None


def check_replaceable(out: Path) -> None:
    """Check that a path is free, an empty folder or a dataset, which a new dataset may replace.

    Raises:
        UsageError: the path has other content.
    """
    empty = out.is_dir() and not any(out.iterdir())
    if out.exists() and not empty and not (out / MANIFEST).is_file():
        raise UsageError(
            f"{out} holds something else than a dataset, and is left as it is. Expected a folder of an older build, or "
            "nothing. Name another place with --out."
        )


def write_dataset(
    out: Path,
    tables: Tables,
    card: str,
    answers: Answers | None = None,
    version: str = "",
    left_out: Sequence[str] = (),
) -> DatasetFolder:
    """Write a dataset atomically and deterministically.

    `card` is Markdown with YAML front matter; `configs`, `dataset_info` and `size_categories` are filled in from the
    tables.
    An existing dataset at `out` is replaced at the end. A split of all rows is named `full`: `datasets` reserves `all`
    for the union of splits, so that `split="all"` reads it too. `answers` are written to `predictions`; they are not
    part of the data and its revision. A `version` goes into the manifest, and so do sentences on what was `left_out`.

    Raises:
        UsageError: a split is named `all`, or `out` has other content than a dataset.
    """
    if any("all" in splits for splits in tables.values()):
        raise UsageError("A split is named 'all', which `datasets` reserves for the union of splits. Name it 'full'.")
    check_replaceable(out)
    with whole_folder(out) as partial:
        files = {}
        for config, splits in tables.items():
            for split, table in splits.items():
                name = f"data/{config}/{split}.parquet"
                _write_parquet(partial / name, table)
                files[name] = {"sha256": file_sha256(partial / name), "rows": table.num_rows}
        digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:40]
        manifest: Row = {"revision": digest, **({"version": version} if version else {}), "files": files}
        manifest |= {"left_out": [*left_out]} if left_out else {}
        if answers:
            manifest["answers"] = _write_answers(partial, answers)
        write_text(partial / MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
        write_text(partial / CARD, complete_card(card, tables, partial, digest))
    return DatasetFolder(out.resolve())


def _write_answers(folder: Path, answers: Answers) -> dict[str, Row]:
    """Write each system's predictions as JSON Lines, and return their entries of the manifest."""
    files = {}
    for (config, split, system), rows in answers.items():
        name = f"{PREDICTIONS}/{config}/{split}/{system.replace('/', ' ')}.jsonl"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_json_lines(folder / name, rows)
        files[name] = {"sha256": file_sha256(folder / name), "rows": len(rows)}
    return files


def copy_dataset(folder: DatasetFolder, out: Path) -> DatasetFolder:
    """Copy a built dataset to `out` atomically."""
    check_replaceable(out)
    with whole_folder(out) as partial:
        shutil.copytree(folder.path, partial, dirs_exist_ok=True)
    return DatasetFolder(out)


def complete_card(card: str, tables: Tables, folder: Path, revision: str) -> str:
    """Return the card with `size_categories`, `configs` and `dataset_info` (features, sizes) in its front matter.

    Each config has a `version` made from the revision, because `datasets` names its cache of a local folder after the
    card alone: without it, `load_dataset` returns the rows of an earlier build, or of another folder of this name,
    wherever the sizes are equal.
    """
    import yaml

    infos, configs = [], []
    for position, (config, splits) in enumerate(tables.items()):
        files = {split: folder / "data" / config / f"{split}.parquet" for split in splits}
        sizes = [{"name": name, "num_bytes": of.nbytes, "num_examples": len(of)} for name, of in splits.items()]
        infos.append(
            {
                "config_name": config,
                "features": _features(next(iter(splits.values())).schema),
                "splits": sizes,
                "download_size": sum(file.stat().st_size for file in files.values()),
                "dataset_size": sum(table.nbytes for table in splits.values()),
            }
        )
        data_files = [{"split": split, "path": file.relative_to(folder).as_posix()} for split, file in files.items()]
        default = {"default": True} if position == 0 else {}
        configs.append({"config_name": config, "data_files": data_files, **default, "version": card_version(revision)})
    infos.sort(key=itemgetter("config_name"))
    configs.sort(key=itemgetter("config_name"))
    front = re.match(r"---[ \t]*\n(.*?)^---[ \t]*\n", card, re.DOTALL | re.MULTILINE)
    data = (yaml.safe_load(front[1]) if front else None) or {}
    n_rows = sum(len(table) for splits in tables.values() for table in splits.values())
    data["size_categories"] = [size_category(n_rows)]
    data["dataset_info"] = infos if len(infos) > 1 else infos[0]
    data["configs"] = configs
    text = (card[front.end() :] if front else card).rstrip() + "\n" + _facts_section(tables, data)
    return f"---\n{yaml.dump(data, sort_keys=False, allow_unicode=True).strip()}\n---\n{text}"


MOST_LISTED = 12
"""Configs whose splits the text of a card lists."""
_CANARY = re.compile(r"canary GUID ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def canary(title: str) -> str:
    """Return the GUID of a dataset by the title of its card: every build of it has the same.

    >>> canary("mini-stark")
    'f255d71a-c58b-5c95-bcb1-af74c4929a6f'
    """
    return str(uuid5(NAMESPACE_URL, f"{NAMESPACE}/{title}"))


def _facts_section(tables: Tables, data: Row) -> str:
    """Return the section of a card on size, splits, license and contamination."""
    n_rows = sum(len(each) for splits in tables.values() for each in splits.values())
    sizes = {name: ", ".join(f"{split} {len(each):,}" for split, each in of.items()) for name, of in tables.items()}
    splits = [f"`{name}` {of}" for name, of in sizes.items()]
    listed = "; ".join(splits[:MOST_LISTED] + ["others: see the metadata"] * (len(splits) > MOST_LISTED))
    license_of = data.get("license_name") or data.get("license") or "not stated"
    return (
        "\n## Size, license and contamination\n\n"
        f"{n_rows:,} rows in {len(tables)} configs: {listed}. License: {license_of}.\n\n"
        "This is evaluation data: do not train on its test splits. This string marks copies of it:\n"
        f"{NAMESPACE} canary GUID {canary(data.get('pretty_name') or '')}\n"
    )


def _features(schema: "pa.Schema") -> list[Row]:
    """Return the columns as `datasets` writes them into a card; it is imported for rare types only.

    >>> import pyarrow as pa
    >>> _features(pa.schema([("id", pa.int64()), ("answers", pa.list_(pa.string()))]))
    [{'name': 'id', 'dtype': 'int64'}, {'name': 'answers', 'list': 'string'}]
    """
    try:
        return [{"name": column.name, **_feature(column.type)} for column in schema]
    except KeyError:
        from datasets import Features

        features: list[Row] = Features.from_arrow_schema(schema)._to_yaml_list()
        return features


def _feature(kind: "pa.DataType") -> Row:
    """Return a type as `datasets` writes it.

    Raises:
        KeyError: a rare type.
    """
    from pyarrow import types

    if types.is_struct(kind):
        return {"struct": [{"name": column.name, **_feature(column.type)} for column in kind]}
    if types.is_list(kind) or types.is_large_list(kind):
        inner = _feature(kind.value_type)
        (form,) = inner
        name = "list" if types.is_list(kind) else "large_list"
        return {name: inner[form] if form in ("dtype", "struct") else inner}
    return {"dtype": _DTYPES[str(kind)]}


_DTYPES = {name: name for name in ("string", "large_string", "bool", "int32", "int64")}
_DTYPES |= {"float": "float32", "double": "float64"}
"""Arrow's name of a type -> that of `datasets`."""


def card_version(revision: str) -> str:
    """Return a revision as a version number of three numbers, the only form that `datasets` accepts.

    >>> card_version("00010002000300040005000600070008000900ff")
    '1.2.3'
    """
    # 48 bits: two of a million builds have the same version with a chance of 0.2 %
    return ".".join(str(int(revision[start : start + 4], 16)) for start in (0, 4, 8))


def size_category(rows: int) -> str:
    """Return the Hub's size category for the number of rows of all configs.

    >>> size_category(0), size_category(1_000), size_category(39_802_116)
    ('n<1K', '1K<n<10K', '10M<n<100M')
    """
    bounds = ["1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T"]
    categories = [f"n<{bounds[0]}", *(f"{low}<n<{high}" for low, high in pairwise(bounds)), f"n>{bounds[-1]}"]
    return categories[min(max(len(str(rows)) - 3, 0), len(bounds))]


def _write_parquet(file: Path, table: "pa.Table") -> None:
    """Write a table; columns with the metadata `SMALL_STEPS` are delta-encoded. The bytes decide the revision."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file.parent.mkdir(parents=True, exist_ok=True)
    steps = [field.name for field in table.schema if field.metadata and b"encoding" in field.metadata]
    plain = pa.schema([field.remove_metadata() for field in table.schema])
    encodings = {f"{name}.list.element": SMALL_STEPS["encoding"] for name in steps}
    with whole_file(file) as sink:
        pq.write_table(
            pa.Table.from_arrays(table.columns, schema=plain),
            sink,
            compression="zstd",
            row_group_size=ROW_GROUP_SIZE,
            version="2.6",
            use_dictionary=[field.name for field in plain if field.name not in steps] if steps else True,
            column_encoding=encodings or None,
        )


def read_json(file: Path) -> Row:
    """Return the object in a JSON file that this package wrote.

    Raises:
        DataError: the file was truncated or altered.
    """
    try:
        value = json.loads(file.read_bytes())
    except ValueError as error:
        raise DataError(f"{file} is not the JSON that was written there: {error}. Make it again.") from None
    if not isinstance(value, dict):
        raise DataError(f"{file} holds a {type(value).__name__}; expected the object written there. Make it again.")
    return value

"""Croissant metadata as the Hub makes it of a dataset's card, for tests that read a folder through it.

The Hub derives it from `dataset_info` of every public dataset: of the first 100 configs one file set and one record set
each, one field for each column. A column of a type that it does not know has none, and readers never learn of it.
"""

from typing import Any

import datasets
import mlcroissant
from datasets.info import DatasetInfosDict
from huggingface_hub import DatasetCard

MAX_CONFIGS = 100
TYPES = {
    "string": "sc:Text",
    "large_string": "sc:Text",
    "bool": "sc:Boolean",
    **{f"{kind}{bits}": f"cr:{kind.capitalize()}{bits}" for kind in ("int", "float") for bits in (16, 32, 64)},
    **{f"uint{bits}": f"cr:UInt{bits}" for bits in (8, 16, 32, 64)},
}


def croissant(card: DatasetCard) -> dict[str, Any]:
    """Return the metadata, its files beside it instead of in the Hub's repository.

    Raises:
        KeyError: the Hub has no name for the type of a column.
    """
    sets, records = [], []
    for config, info in DatasetInfosDict.from_dataset_card_data(card.data).items():
        files = f"parquet-files-for-config-{config}"
        kind = "application/x-parquet"
        sets.append(
            {"@type": "cr:FileSet", "@id": files, "encodingFormat": kind, "includes": f"data/{config}/*.parquet"}
        )
        fields = [_field(files, f"{config}/{column}", column, feature) for column, feature in info.features.items()]
        records.append({"@type": "cr:RecordSet", "@id": config, "field": fields})
    return {
        "@context": mlcroissant.Rdf().context,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": card.data.pretty_name,
        "description": card.content.splitlines()[0],
        "license": card.data.license,
        "url": "https://huggingface.co/datasets/kbbench",
        "distribution": sets,
        "recordSet": records,
    }


def _field(files: str, name: str, column: str, feature: Any, path: tuple[str, ...] = ()) -> dict[str, Any]:
    if isinstance(feature, datasets.List):
        return {**_field(files, name, column, feature.feature, path), "isArray": True, "arrayShape": "-1"}
    if isinstance(feature, dict):
        parts = [_field(files, f"{name}/{key}", column, part, (*path, key)) for key, part in feature.items()]
        return {"@type": "cr:Field", "@id": name, "subField": parts}
    source: dict[str, Any] = {"fileSet": {"@id": files}, "extract": {"column": column}}
    if path:
        source["transform"] = [{"jsonPath": key} for key in path]
    return {"@type": "cr:Field", "@id": name, "dataType": TYPES[feature.dtype], "source": source}

"""Annotations are files that know what they were made with, and are never taken for anything else."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.annotated import with_annotations
from kbbench_hf.benchmarks.annotations import Annotations, read_annotation, triple_key, triples_digest, write_annotation
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.genres.benchmark import CorpusContext
from kbbench_hf.benchmarks.genres.warnings import warnings as warn
from kbbench_hf.benchmarks.judge_agreement import annotation_warnings, self_judged_warnings
from kbbench_hf.errors import UsageError
from tests.unit.conftest import Disk

IDENTITIES: dict[str, dict[str, Any]] = {
    "embeddings": {"embedder": "mini@1", "uniqueness_threshold": 0.69, "completeness_threshold": 0.73},
    "factualness": {"judge": "chat:m@1", "prompt_sha256": "ab12", "sampling": {"temperature": 0.0, "max_tokens": 16}},
    "granularity": {"judge": "nli:m@2#0.5", "prompt_sha256": "cd34", "structured": False},
    "topics-reference": {"n_topics": 50, "mode": "reference", "seed": 2, "corpus_sha256": "ef56", "model_sha256": "78"},
}
DOCUMENT = "d1"
TRIPLE = ["a", "r", "b"]


def write_all(folder: Path) -> None:
    key = [triple_key(TRIPLE)]
    verdict = {"id": [DOCUMENT], "triple": key, "value": [1.0], "status": ["ok"], "raw": ["true"]}
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.eye(3, dtype=np.float32).ravel()), 3)
    shares = pa.FixedSizeListArray.from_arrays(pa.array([0.5, 0.5]), 2)
    tables = {
        "embeddings": {"element": ["a", "r", "b"], "vector": vectors},
        "factualness": {**verdict, "occurrence": [0]},
        "granularity": {**verdict, "value": [2.0]},
        "topics-reference": {
            "id": [DOCUMENT],
            "triples_sha256": [triples_digest([TRIPLE])],
            "source": shares,
            "triples": shares,
        },
    }
    for kind, columns in tables.items():
        write_annotation(folder, kind, IDENTITIES[kind], pa.table(columns))


def mutated(identity: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return the identity with one thing changed, added or left out."""
    field = rng.choice(sorted(identity))
    value = identity[field]
    if rng.random() < 0.1:
        return {name: kept for name, kept in identity.items() if name != field}
    if rng.random() < 0.1:
        return {**identity, f"{field}_": value}
    if isinstance(value, dict):
        return {**identity, field: mutated(value, rng)}
    if isinstance(value, bool):
        return {**identity, field: not value}
    if isinstance(value, str):
        place = rng.randrange(len(value))
        return {**identity, field: value[:place] + chr(ord(value[place]) + 1) + value[place + 1 :]}
    return {**identity, field: value + rng.choice([-1, 0.01, 1e-9])}


def test_an_annotation_comes_back_for_its_own_identity(tmp_path: Path) -> None:
    write_all(tmp_path)
    for kind, identity in IDENTITIES.items():
        assert read_annotation(tmp_path, kind, identity) is not None
        assert read_annotation(tmp_path, kind) is not None


def test_an_annotation_is_on_disk_before_it_has_its_name(tmp_path: Path, disk: Disk) -> None:
    write_annotation(tmp_path, "topics-fixed", {}, pa.table({"id": ["d1"]}))
    file = tmp_path / "topics-fixed.parquet"
    assert disk.flushed(file)[0] < disk.named(file) < disk.flushed(tmp_path)[0]


def test_of_a_hundred_other_identities_none_is_served(tmp_path: Path) -> None:
    write_all(tmp_path)
    rng = random.Random(6)
    served = 0
    for _ in range(100):
        kind = rng.choice(sorted(IDENTITIES))
        served += read_annotation(tmp_path, kind, mutated(IDENTITIES[kind], rng)) is not None
    assert served == 0


def test_a_file_under_another_kinds_name_is_not_read(tmp_path: Path) -> None:
    write_all(tmp_path)
    (tmp_path / "factualness.parquet").replace(tmp_path / "granularity.parquet")
    assert read_annotation(tmp_path, "granularity") is None
    assert read_annotation(tmp_path, "factualness") is None


def test_verdicts_belong_to_document_triple_and_occurrence(tmp_path: Path) -> None:
    write_all(tmp_path)
    found = Annotations(tmp_path)
    assert found.verdicts(DOCUMENT, [TRIPLE, TRIPLE]) == [1.0, 1.0]  # the second occurrence has the first one's
    assert found.verdicts("d2", [TRIPLE]) is None
    assert found.verdicts(DOCUMENT, [TRIPLE, ["a", "r", "c"]]) is None  # never judged: the document is not scored
    assert found.splits(DOCUMENT, [TRIPLE, TRIPLE]) == [2]
    assert found.splits("d2", [TRIPLE]) is None


def test_topics_of_other_triples_are_not_used(tmp_path: Path) -> None:
    write_all(tmp_path)
    found = Annotations(tmp_path)
    source, triples = found.topics("reference", [DOCUMENT, DOCUMENT, "d2"], [[TRIPLE], [["a", "r", "c"]], [TRIPLE]])
    assert source.shape == triples.shape == (1, 3, 2)  # made before there were several models: one
    assert source[0, 0].tolist() == triples[0, 0].tolist() == [0.5, 0.5]
    assert np.isnan(source[0, 1:]).all() and np.isnan(triples[0, 1:]).all()


def test_an_unknown_element_leaves_the_document_unscored_and_a_malformed_triple_is_left_out(tmp_path: Path) -> None:
    write_all(tmp_path)
    found = Annotations(tmp_path)
    places = found.places([TRIPLE, ["a", "r", None], ["a", "r"], "abc"])
    assert places is not None and places.tolist() == [[0, 1, 2]]
    assert found.sums(places).tolist() == [[1.0, 1.0, 1.0]]
    assert found.sums(np.zeros((0, 3), dtype=np.int64)).shape == (0, 3)
    assert found.places([["a", "r", "unknown"]]) is None
    assert found.threshold("embeddings", "uniqueness") == 0.69


def test_an_empty_folder_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Run kbbench annotate"):
        Annotations(tmp_path)


def test_an_annotation_of_nothing_can_be_read(tmp_path: Path) -> None:
    shares = pa.FixedSizeListArray.from_arrays(pa.array([], pa.float64()), 2)
    none = pa.array([], pa.string())
    write_annotation(
        tmp_path,
        "topics-fixed",
        {},
        pa.table({"id": none, "triples_sha256": none, "source": shares, "triples": shares}),
    )
    source, _ = Annotations(tmp_path).topics("fixed", ["d1"], [[]])
    assert np.isnan(source).all() and source.shape == (1, 1, 1)


def test_thresholds_of_other_texts_are_said_to_be_so(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1.0]), 1)
    identity = {**IDENTITIES["embeddings"], "threshold_corpus": "cdr"}
    write_annotation(tmp_path, "embeddings", identity, pa.table({"element": ["a"], "vector": vectors}))
    for config, codes in (("cdr", []), ("docred", ["thresholds_of_other_texts"])):
        examples = with_annotations(Examples([], CorpusContext(config, ())), tmp_path)
        found = warn(benchmark("mini-genres"), examples, [], "reference")
        assert [warning.code for warning in found if warning.code.startswith("thresholds")] == codes


@pytest.mark.parametrize(
    ("judge", "values", "warned"),
    [
        ("chat:m@1", [1.0] * 12, True),
        ("chat:m@1", [0.0] * 12, True),
        ("chat:m@1", [1.0] * 11 + [0.0], False),
        ("chat:m@1", [1.0] * 9, False),
        ("surface:m", [1.0] * 12, False),
    ],
)
def test_a_language_model_that_gives_one_verdict_to_everything_is_warned_of(
    tmp_path: Path, judge: str, values: list[float], warned: bool
) -> None:
    keys = [triple_key([f"a{n}", "r", "b"]) for n in range(len(values))]
    n = len(values)
    columns = {"id": ["d1"] * n, "triple": keys, "occurrence": [0] * n, "value": values, "status": ["ok"] * n}
    table = pa.table({**columns, "raw": ["x"] * n})
    write_annotation(tmp_path, "factualness", {"judge": judge}, table)
    examples = with_annotations(Examples([], CorpusContext("cdr", ())), tmp_path)
    found = annotation_warnings(benchmark("mini-genres"), examples, [])
    assert ("constant_verdicts" in [each.code for each in found]) is warned


@pytest.mark.parametrize(
    ("model", "warned"),
    [
        *((name, True) for name in ("m", "m@2", "llm:m", "hf:m", "M", "org/m", "hf:Org/M", "m:latest", "hf:x/m.gguf")),
        *((name, False) for name in ("other", "", "m2", "m:8b", "m/other")),
    ],
)
def test_a_model_that_judges_itself_is_warned_of(tmp_path: Path, model: str, warned: bool) -> None:
    write_all(tmp_path)
    examples = with_annotations(Examples([], CorpusContext("cdr", ())), tmp_path)
    assert bool(self_judged_warnings(model, examples)) is warned

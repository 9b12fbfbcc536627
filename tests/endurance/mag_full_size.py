"""A MAG archive of the release's size, in the form that the authors' code writes, built within a bound of memory.

1,872,968 nodes with records of the release's keys, 19,919,698 edges, four members, edges as views of one tensor of
three rows; questions in the release's numbers, whose templates are looked for. Needs 10 GB of disk and an hour at most.

python -m tests.endurance.mag_full_size FOLDER [--shared-keys]
"""

import argparse
import csv
import io
import itertools
import resource
import shutil
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import torch

from kbbench_hf.building.stark.release import HUMAN_WRITTEN, INDEXES, MAG, SYNTHESIZED

AUTHORS, INSTITUTIONS, FIELDS = 1_104_554, 8_719, 59_451
"""Nodes of each type; with the papers they are the release's."""
MOST_BYTES = 4_000_000_000
NAMED = (
    *("id", "mag_id", "Rank", "DisplayName", "LastKnownAffiliationId"),
    *("PaperCount", "CitationCount", "type", "new_id"),
)
PAPER = (
    *("id", "mag_id", "PaperRank", "DocType", "OriginalTitle", "BookTitle", "Year", "Date", "Publisher", "JournalId"),
    *("ConferenceSeriesId", "ConferenceInstanceId", "ReferenceCount", "PaperCitationCount", "EstimatedCitationCount"),
    *("OriginalVenue", "JournalRank", "JournalDisplayName", "JournalPaperCount", "JournalCitationCount"),
    *("ConferenceSeriesRank", "ConferenceSeriesDisplayName", "ConferenceSeriesPaperCount"),
    *("ConferenceSeriesCitationCount", "ConferenceInstancesDisplayName", "Location", "StartDate", "EndDate"),
    *("ConferenceInstancesPaperCount", "ConferenceInstanceCitationCount", "type", "new_id", "title", "abstract"),
)


class Pickle:
    """Writes one dictionary of flat records as protocol 4 does, without having it in memory."""

    def __init__(self, sink: IO[bytes], shared_keys: bool) -> None:
        self.sink, self.shared = sink, shared_keys
        self.n, self.keys = 0, dict[str, int]()

    def memoized(self, content: bytes) -> bytes:
        self.n += 1
        return content + b"\x94"

    def text(self, text: str) -> bytes:
        raw = text.encode()
        head = b"\x8c" + bytes([len(raw)]) if len(raw) < 256 else b"X" + struct.pack("<I", len(raw))
        return self.memoized(head + raw)

    def key(self, key: str) -> bytes:
        if self.shared and key in self.keys:
            return b"j" + struct.pack("<I", self.keys[key])
        self.keys[key] = self.n
        return self.text(key)

    def value(self, value: object) -> bytes:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, float):
            return b"G" + struct.pack(">d", value)
        assert isinstance(value, int)
        if 0 <= value < 256:
            return b"K" + bytes([value])
        if 0 <= value < 65536:
            return b"M" + struct.pack("<H", value)
        return b"J" + struct.pack("<i", value)

    def write(self, records: Iterator[dict[str, object]]) -> None:
        self.sink.write(b"\x80\x04" + self.memoized(b"}"))
        for number in itertools.count():
            batch = list(itertools.islice(records, 1000))
            if not batch:
                break
            content = [b"("]
            for place, record in enumerate(batch):
                content += [self.value(1000 * number + place), self.memoized(b"}"), b"("]
                for key, value in record.items():
                    content += [self.key(key), self.value(value)]
                content.append(b"u")
            self.frames(b"".join([*content, b"u"]))
        self.sink.write(b".")

    def frames(self, content: bytes) -> None:
        self.sink.write(b"\x95" + struct.pack("<Q", len(content)) + content)


def records() -> Iterator[dict[str, object]]:
    """Yield records with as much text as the release's: abstracts of about 1,100 characters."""
    words, generator = prose_words()
    starts = (int(each) for _ in itertools.count() for each in generator.integers(0, len(words) - 200, 100_000))

    def prose(n: int) -> str:
        start = next(starts)
        return " ".join(words[start : start + n])

    number = itertools.count()
    for kind, n in (("author", AUTHORS), ("institution", INSTITUTIONS), ("field_of_study", FIELDS)):
        for i in range(n):
            values = (i, 900_000_000 + i, 17_000, prose(2).title(), -1, 30_000 + i, 400_000 + i, kind, next(number))
            yield dict(zip(NAMED, values, strict=True))
    for i, node in enumerate(range(AUTHORS + INSTITUTIONS + FIELDS, MAG.archive.n_nodes)):
        title = prose(11)
        values = (
            *(i, 1_100_000_000 + i, 19_000, "Journal", title.title(), -1, 2015, "2015-03-01", prose(2), 1_000_000 + i),
            *(float("nan"), -1, 30, 400, 400, prose(3), 9_000, prose(3), 70_000, 800_000),
            *(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, "paper", node, title, prose(165)),
        )
        yield dict(zip(PAPER, values, strict=True))


def prose_words() -> tuple[list[str], np.random.Generator]:
    """Return the words that records are written in, and the generator that goes on from there."""
    generator = np.random.default_rng(0)
    return [
        bytes(generator.integers(97, 123, n, np.uint8)).decode() for n in generator.integers(2, 11, 200_000)
    ], generator


def write_questions(folder: Path) -> None:
    """Write questions of the release's counts, each of which names an author or a field as `records` does."""
    words, _ = prose_words()
    counts = {name: numbers[0] for name, numbers in MAG.questions.counts.items()}
    generator, papers = np.random.default_rng(2), itertools.count(MAG.questions.candidates.start)
    n, n_multi = counts["questions"], counts["multi-answer"]
    least, longer = divmod(counts["distinct answers"] - (n - n_multi), n_multi)

    def written(file: Path, sizes: Iterator[int]) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", encoding="utf-8", newline="") as sink:
            rows = csv.writer(sink)
            rows.writerow(["id", "query", "answer_ids"])
            for number, size in enumerate(sizes):
                start = int(generator.integers(len(words) - 200))
                asked = f"Papers by {' '.join(words[start : start + 2]).title()} that speak of {words[start + 50]}?"
                rows.writerow([number, asked, [next(papers) for _ in range(size)]])

    sizes = (1 if k >= n_multi else least + (k < longer) for k in range(n))
    written(folder / SYNTHESIZED, sizes)
    multi = counts["human multi-answer"]
    written(folder / HUMAN_WRITTEN, (1 + (k < multi) for k in range(counts["human"])))
    order, start = generator.permutation(n).tolist(), 0
    for split in ("train", "validation", "test"):
        chosen, start = order[start : start + counts[split]], start + counts[split]
        (folder / INDEXES[split]).parent.mkdir(exist_ok=True)
        (folder / INDEXES[split]).write_text("".join(f"{each}\n" for each in chosen))
    (folder / INDEXES["test_0_1"]).write_text("".join(f"{each}\n" for each in chosen[: counts["test_0_1"]]))


def tensors() -> dict[str, torch.Tensor]:
    """Make the edges: two rows of ends and one of types in one storage, of which the members are views."""
    n, generator = MAG.archive.n_nodes, np.random.default_rng(1)
    bounds = np.cumsum([0, AUTHORS, INSTITUTIONS, FIELDS, n - AUTHORS - INSTITUTIONS - FIELDS])
    ends_of = ((0, 1), (3, 3), (3, 2), (0, 3))  # affiliated with, cites, has topic, writes
    types = np.sort(generator.choice(4, MAG.archive.n_edges, p=(0.03, 0.35, 0.36, 0.26)))
    joined = np.empty((3, MAG.archive.n_edges), np.int64)
    for relation, (head, tail) in enumerate(ends_of):
        here = types == relation
        for row, kind in enumerate((head, tail)):
            joined[row, here] = generator.integers(bounds[kind], bounds[kind + 1], here.sum())
    joined[2] = types
    whole = torch.from_numpy(joined)
    node_types = torch.from_numpy(np.repeat(np.arange(4), np.diff(bounds)))
    return {"edge_index.pt": whole[:2], "edge_types.pt": whole[2], "node_types.pt": node_types}


def write_archive(file: Path, shared_keys: bool) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("processed/node_info.pkl", "w", force_zip64=True) as sink:
            Pickle(sink, shared_keys).write(records())
        for name, tensor in tensors().items():
            content = io.BytesIO()
            torch.save(tensor, content)
            archive.writestr(f"processed/{name}", content.getbuffer())


def main(folder: Path, shared_keys: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    if not (folder / "processed.zip").is_file():
        write_archive(folder / "processed.part", shared_keys)
        (folder / "processed.part").rename(folder / "processed.zip")
    print(f"archive: {(folder / 'processed.zip').stat().st_size / 1e6:,.0f} MB, {time.monotonic() - started:.0f} s")
    write_questions(folder)
    shutil.rmtree(folder / "built", ignore_errors=True)
    build = [sys.executable, "-m", "kbbench_hf.cli", "build", "stark-mag", "--source", str(folder)]
    _measure("build", [*build, "--out", str(folder / "built")])
    assert _most_bytes() < MOST_BYTES, f"the build took more than {MOST_BYTES:,} bytes"
    _measure("open for the first time, and render", [sys.executable, "-c", OPEN, str(folder / "built")])


def _measure(what: str, command: list[str]) -> None:
    started = time.monotonic()
    subprocess.run(command, check=True)
    print(f"{what}: {time.monotonic() - started:.0f} s; most memory of a process so far {_most_bytes() / 1e9:.2f} GB")


def _most_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


OPEN = """
import sys
from kbbench_hf.knowledge_base import KnowledgeBase
from kbbench_hf.knowledge_base.documents import render
from kbbench_hf.benchmarks.stark.documents import DOCUMENTS
kb = KnowledgeBase.open(sys.argv[1])
print(kb, kb.graph.symmetric)
print(render(kb, DOCUMENTS["mag"](), rows=[1_500_000])[0].as_py()[-600:])
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shared-keys", action="store_true", help="as pickles of 2024, whose records share their keys")
    given = parser.parse_args()
    main(given.folder, given.shared_keys)

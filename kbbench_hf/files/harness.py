"""What evaluation harnesses log of each sample, as rows: lm-evaluation-harness and inspect_ai.

Source: lm-evaluation-harness, commit 4e7e0d4, and inspect_ai, commit 499e615, which write these files.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from kbbench_hf.files.json_lines import unique_keys
from kbbench_hf.files.packing import Opened, read_member
from kbbench_hf.files.rows import How, Line, Note, Reading, Unreadable

Log = Mapping[str, object]
LM_EVAL = {"id": "doc.id", "response": "filtered_resps.0"}
"""Where lm-evaluation-harness has the fields of a row; `doc_id` is a position in a split, and no id."""
_SAMPLE = re.compile(r"samples/.+_epoch_\d+\.json")


def is_lm_eval(row: object) -> bool:
    """Say whether an object is a line of `samples_<task>_<time>.jsonl`."""
    return isinstance(row, dict) and {"doc_id", "doc", "resps", "filtered_resps"} <= row.keys()


def of_lm_eval(lines: Iterator[Line]) -> Reading:
    """Return the rows of lm-evaluation-harness: the filtered responses, under the id that the document has."""
    return Reading("lm-evaluation-harness samples", map(_checked, lines), fields=LM_EVAL, one_of="filter")


def _checked(line: Line) -> Line:
    row = line.value
    if not isinstance(row, dict) or not isinstance(found := row.get("filtered_resps"), list) or not found:
        return line
    if isinstance(found[0], list):
        if len(found[0]) == 1 and isinstance(found[0][0], str):
            return Line(line.number, {**row, "filtered_resps": found[0]})
        texts = all(isinstance(each, str) for each in found[0])
        what = f"{len(found[0])} repeats of each answer" if texts else "log-likelihoods of choices, no text"
        mend = "Keep one with the filter take_first." if texts else "Run a task that generates text."
        raise Unreadable(f"lm-evaluation-harness samples with {what}", mend, line.number)
    return line


def refuse_summary(found: Mapping[str, object]) -> None:
    """Refuse what lm-evaluation-harness writes beside its samples.

    Raises:
        Unreadable: it is that.
    """
    if {"results", "configs", "versions"} <= found.keys():
        raise Unreadable(
            "these are results of lm-evaluation-harness: scores, no predictions",
            "Send its samples_*.jsonl, which it writes with --log_samples.",
        )


def is_inspect_log(found: Mapping[str, object]) -> bool:
    """Say whether an object is a log of inspect_ai."""
    return {"version", "status", "eval"} <= found.keys()


def of_inspect_log(log: Log) -> Reading:
    """Return the rows of a `.json` log of inspect_ai."""
    samples = log.get("samples")
    return _of_samples(log, samples if isinstance(samples, list) else [], str(log.get("status")))


def read_inspect_archive(opened: Opened, how: How) -> Reading:
    """Return the rows of an `.eval` log of inspect_ai, packed with deflate or zstandard.

    Raises:
        Unreadable: it holds samples in a form that is not known.
    """
    archive = opened.archive
    if archive is None:
        raise Unreadable("no archive")
    names = list(dict.fromkeys(archive.namelist()))
    samples = [name for name in names if _SAMPLE.fullmatch(name)]
    strange = [name for name in names if name.startswith("samples/") and name not in samples and not name.endswith("/")]
    if strange:
        raise Unreadable(
            f"an inspect_ai log with the member {strange[0]!r}, of a form that is not read here",
            "Write it as JSON first: inspect log convert --to json.",
        )

    def member(name: str) -> object:
        try:
            found: object = json.loads(read_member(archive, name), object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"the member {name!r} is not JSON: {error}") from None
        return found

    start = "header.json" if "header.json" in names else "_journal/start.json"
    log = member(start)
    if not isinstance(log, dict):
        raise Unreadable(f"the member {start!r} is not an object")
    status = str(log.get("status")) if start == "header.json" else "killed"
    return _of_samples(log, map(member, samples), status)


def _of_samples(log: Log, samples: Iterable[object], status: str) -> Reading:
    """Return a sample per row; `error` says that it failed."""
    reading = Reading(
        "an inspect_ai log",
        (Line(number, _row(each)) for number, each in enumerate(samples, start=1)),
        fields={"id": "id", "response": "response", "error": "error"},
        one_of="epoch",
        empty="the log has no samples",
    )
    evaluated = log.get("eval")
    told = evaluated if isinstance(evaluated, dict) else {}
    if status != "success":
        reading.notes.append(
            Note(
                "incomplete_log",
                f"This inspect_ai run did not end (status {status!r}): the log has the samples written by then only.",
                "Run it to its end: inspect eval-retry.",
            )
        )
    config = told.get("config")
    if isinstance(config, dict) and config.get("limit") is not None:
        reading.notes.append(
            Note(
                "limit",
                f"This inspect_ai run has some of the samples only (limit {config['limit']}).",
                "Run all of them.",
            )
        )
    return reading


def _row(sample: object) -> object:
    if not isinstance(sample, dict):
        return sample
    row = {key: sample[key] for key in ("id", "epoch") if key in sample}
    for key in ("metadata", "input", "target", "scores"):
        row[key] = sample.get(key)  # for --map
    if sample.get("error") is not None:
        return {**row, "error": sample["error"]}
    output = sample.get("output")
    completion = output.get("completion") if isinstance(output, dict) else None
    attachments = sample.get("attachments")
    if isinstance(completion, str) and completion.startswith("attachment://") and isinstance(attachments, dict):
        completion = attachments.get(completion.removeprefix("attachment://"), completion)
    return row if completion is None else {**row, "response": completion}

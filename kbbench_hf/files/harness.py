"""Importers of sample logs of evaluation harnesses: lm-evaluation-harness, inspect_ai and mteb.

Source: lm-evaluation-harness, commit 4e7e0d4, inspect_ai, commit 499e615, and mteb 2.26, which write these files.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile, ZipFile

from kbbench_hf.files.json_lines import unique_keys
from kbbench_hf.files.packing import read_member
from kbbench_hf.files.rows import Note, ParsedFile, ParsedRow, Unreadable, numbered, value_or_none

Log = Mapping[str, object]
LM_EVAL = {"id": "doc.id", "response": "filtered_resps.0"}
"""Field -> its path; `doc_id` is an index in a split, not an id."""
SETTINGS = "kbbench"
"""Field of a log's metadata with the settings of the run, in logs of our tasks."""
_SAMPLE = re.compile(r"samples/.+_epoch_\d+(?:\.json|/sample\.json)")
_CHUNK = re.compile(r"(samples/.+_epoch_\d+)/(\w+/)?(\w+)\.json")
"""A member of a sample in chunks: `attachments/0.json` has its attachments from number 0."""


def is_lm_eval(row: object) -> bool:
    """Return whether an object is a line of `samples_<task>_<time>.jsonl`."""
    return isinstance(row, dict) and {"doc_id", "doc", "resps", "filtered_resps"} <= row.keys()


def parse_lm_eval(lines: Iterator[ParsedRow]) -> ParsedFile:
    """Return the rows of lm-evaluation-harness: the filtered responses, with the ids of the documents."""
    return ParsedFile("lm-evaluation-harness samples", map(_unnest_response, lines), fields=LM_EVAL, one_of="filter")


def _unnest_response(line: ParsedRow) -> ParsedRow:
    """Return a row with the first of its repeats of the response, where there is one only.

    Raises:
        Unreadable: it has several repeats, or log-likelihoods.
    """
    row = line.value
    responses = row.get("filtered_resps") if isinstance(row, dict) else None
    repeats = responses[0] if isinstance(responses, list) and responses else None
    if not isinstance(row, dict) or not isinstance(repeats, list):
        return line
    are_texts = all(isinstance(each, str) for each in repeats)
    if len(repeats) == 1 and are_texts:
        return ParsedRow(line.number, {**row, "filtered_resps": repeats})
    what = f"{len(repeats)} repeats of each answer" if are_texts else "log-likelihoods of choices, no text"
    remedy = "Keep one with the filter take_first." if are_texts else "Run a task that generates text."
    raise Unreadable(f"lm-evaluation-harness samples with {what}", remedy, line.number)


def refuse_summary(document: Mapping[str, object]) -> None:
    """Refuse the results file of lm-evaluation-harness.

    Raises:
        Unreadable: the object is one.
    """
    if {"results", "configs", "versions"} <= document.keys():
        raise Unreadable(
            "these are results of lm-evaluation-harness: scores, no predictions",
            "Send its samples_*.jsonl, which it writes with --log_samples.",
        )


def parse_mteb(document: Mapping[str, object], *, any_splits: bool) -> ParsedFile | None:
    """Return the rankings in predictions of mteb, subset -> split -> query -> document -> score; None where it is none.

    Raises:
        Unreadable: they are of several splits without `any_splits`; or these are results, which are scores.
    """
    if not any_splits and {"task_name", "mteb_version", "scores"} <= document.keys():
        remedy = "Save the rankings, mteb.evaluate(..., prediction_folder=FOLDER), and send FOLDER/*_predictions.json."
        raise Unreadable("these are results of mteb: scores, no predictions", remedy)
    if "mteb_model_meta" not in document:
        return None
    subsets = {name: each for name, each in document.items() if name != "mteb_model_meta" and isinstance(each, dict)}
    named = {f"{subset}/{split}": run for subset, splits in subsets.items() for split, run in splits.items()}
    runs = {name: run for name, run in named.items() if isinstance(run, dict)}
    if len(runs) > 1 and not any_splits:
        raise Unreadable(f"mteb predictions of {len(runs)} splits: {', '.join(runs)}", "Send a file of one split.")
    rows = ({"id": query, "ids": ranking} for run in runs.values() for query, ranking in run.items())
    return ParsedFile("mteb predictions", numbered(rows), judgments="no", empty="it has no rankings")


def is_inspect_log(document: Mapping[str, object]) -> bool:
    """Return whether an object is a log of inspect_ai."""
    return {"version", "status", "eval"} <= document.keys()


def parse_inspect_log(log: Log) -> ParsedFile:
    """Return the rows of a `.json` log of inspect_ai."""
    samples = log.get("samples")
    return _parse_samples(log, samples if isinstance(samples, list) else [], str(log.get("status")))


def parse_inspect_archive(archive: ZipFile) -> ParsedFile:
    """Return the rows of an `.eval` log of inspect_ai, packed with deflate or zstandard, its samples perhaps in chunks.

    Raises:
        Unreadable: its samples have an unknown form.
    """
    names = list(dict.fromkeys(archive.namelist()))
    samples = [name for name in names if _SAMPLE.fullmatch(name)]
    chunks = [match for name in names if (match := _CHUNK.fullmatch(name))]
    known = {*samples, *(match[0] for match in chunks if f"{match[1]}/sample.json" in samples)}
    strange = [name for name in names if name.startswith("samples/") and name not in known and not name.endswith("/")]
    if strange:
        raise Unreadable(
            f"an inspect_ai log with the member {strange[0]!r}, of a form that is not read here",
            "Write it as JSON first: inspect log convert --to json.",
        )

    def member(name: str) -> object:
        try:
            content: object = json.loads(read_member(archive, name), object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"the member {name!r} is not JSON: {error}") from None
        return content

    def sample(name: str) -> object:
        content, own = member(name), [each for each in chunks if f"{each[1]}/sample.json" == name]
        if not isinstance(content, dict) or not own:
            return content
        metadata = {each[3]: member(each[0]) for each in own if each[3] == "metadata"}
        parts = {int(each[3]): each[0] for each in own if each[2] == "attachments/"}
        texts = [text for _, part in sorted(parts.items()) for text in cast("list[str]", member(part))]
        return {**content, **metadata, "attachments": {str(number): text for number, text in enumerate(texts)}}

    start = _start_of(names)
    log = member(start)
    if not isinstance(log, dict):
        raise Unreadable(f"the member {start!r} is not an object")
    status = str(log.get("status")) if start == "header.json" else "killed"
    return _parse_samples(log, map(sample, samples), status)


def _start_of(names: Iterable[str]) -> str:
    """Return the member of an `.eval` log with its settings."""
    return "header.json" if "header.json" in names else "_journal/start.json"


def read_inspect_settings(path: Path) -> dict[str, Any]:
    """Return the settings of a run in an `.eval` log of one of our tasks, as in `run.json`; empty for other files.

    They have the model, and with a limit on the samples their number.
    """
    if path.suffix != ".eval":
        return {}
    with suppress(OSError, BadZipFile, KeyError, ValueError, Unreadable), ZipFile(path) as archive:
        log = json.loads(read_member(archive, _start_of(archive.namelist())))
        settings: object = value_or_none(log, f"eval.metadata.{SETTINGS}")
        if isinstance(settings, dict):
            limit = value_or_none(log, "eval.config.limit")
            n_examples = min(limit, settings["n_examples"]) if isinstance(limit, int) else settings["n_examples"]
            model = value_or_none(log, "eval.model")
            return {**settings, "model": model, "n_examples": n_examples, "source": "response"}
    return {}


def find_inspect_failure(output: object) -> str | None:
    """Return why the output of a sample of inspect_ai is no answer of the model, as in journals; None if it is one.

    >>> find_inspect_failure({"choices": [{"stop_reason": "content_filter"}]})
    'content_filter'
    """
    choices = value_or_none(output, "choices") if isinstance(output, dict) else None
    if not isinstance(choices, list) or not choices:
        return None
    if value_or_none(choices[0], "stop_reason") == "content_filter":
        return "content_filter"
    content = value_or_none(choices[0], "message.content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    if any(part.get("refusal") for part in parts):
        return "refusal"
    is_empty = not any(str(part.get("text") or "").strip() for part in parts)
    return "reasoning_only" if is_empty and any(part.get("type") == "reasoning" for part in parts) else None


def _parse_samples(log: Log, samples: Iterable[object], status: str) -> ParsedFile:
    """Return one row per sample; `error` is that of a failed one."""
    parsed = ParsedFile(
        "an inspect_ai log",
        numbered(map(_row, samples)),
        fields={"id": "id", "response": "response", "error": lambda row: row.get("error", row.get("failure"))},
        one_of="epoch",
        empty="the log has no samples",
    )
    parsed.title = str(value_or_none(log, "eval.task") or "")
    if status != "success":
        message = f"This inspect_ai run did not end (status {status!r}): the log has the samples written by then only."
        parsed.notes.append(Note("incomplete_log", message, "Run it to its end: inspect eval-retry."))
    if (limit := value_or_none(log, "eval.config.limit")) is not None:
        message = f"This inspect_ai run has some of the samples only (limit {limit})."
        parsed.notes.append(Note("limit", message, "Run all of them."))
    return parsed


def _row(sample: object) -> object:
    if not isinstance(sample, dict):
        return sample
    row = {key: sample[key] for key in ("id", "epoch") if key in sample}
    row |= {key: sample.get(key) for key in ("metadata", "input", "target", "scores")}  # for --map and comparisons
    if "score" in sample:  # of versions with one scorer
        row["scores"] = {"score": sample["score"]}
    if sample.get("error") is not None:
        return {**row, "error": sample["error"]}
    completion, attachments = value_or_none(sample, "output.completion"), sample.get("attachments")
    if isinstance(completion, str) and completion.startswith("attachment://") and isinstance(attachments, dict):
        completion = attachments.get(completion.removeprefix("attachment://"), completion)
    return (
        row
        if completion is None
        else {**row, "response": completion, "failure": find_inspect_failure(sample.get("output"))}
    )

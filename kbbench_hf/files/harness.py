"""Importers of logs of evaluation harnesses, and of output files of batch APIs, evaluation and extraction tools.

Sources: lm-evaluation-harness, commit 4e7e0d4, inspect_ai, commit 499e615, and mteb 2.26, which write these files; the
batch guides of OpenAI (Azure, Mistral, vLLM run-batch and Fireworks write the same lines), Anthropic, Gemini and Vertex
AI, and Amazon Bedrock; HELM's scenario_state.json; promptfoo's and lighteval's results; LangChain's GraphDocument;
LlamaIndex's nodes; the XML that WebNLG/WebNLG-Text-to-triples evaluates.

`formats` calls the importers for a file of any origin: a field may be absent or of any type, and a log may be cut off.
An importer refuses a file in words (`Unreadable`) rather than guess, and never takes the gold for predictions.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

from kbbench_hf.files.json_lines import unique_keys
from kbbench_hf.files.packing import OpenedFile, read_member
from kbbench_hf.files.rows import (
    FieldPath,
    Note,
    ParsedFile,
    ParsedRow,
    ReadSettings,
    Unreadable,
    numbered,
    value_at,
    value_or_none,
)

Log = Mapping[str, object]
LM_EVAL = {"id": "doc.id", "response": "filtered_resps.0"}
"""Field -> its path; `doc_id` is an index in a split, not an id."""
SETTINGS = "kbbench"
"""Field of a log's metadata with the settings of the run, in logs of our tasks."""
_SETTINGS: Mapping[str, type] = {"benchmark": str, "config": str, "split": str, "parser": str, "n_examples": int}
"""Key of these settings that scoring looks up -> the type of its value."""
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
    """Raise `Unreadable` for the results file of lm-evaluation-harness."""
    if {"results", "configs", "versions"} <= document.keys():
        remedy = "Send its samples_*.jsonl, which it writes with --log_samples."
        raise Unreadable("these are results of lm-evaluation-harness: scores, no predictions", remedy)


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


def parse_inspect_log(log: Log) -> ParsedFile | None:
    """Return the rows of a `.json` log of inspect_ai; None where an object is none."""
    if not {"version", "status", "eval"} <= log.keys():
        return None
    samples = log.get("samples")
    return _parse_samples(log, samples if isinstance(samples, list) else [], str(log.get("status")))


def parse_inspect_archive(archive: ZipFile) -> ParsedFile:
    """Return the rows of an `.eval` log of inspect_ai, packed with deflate or zstandard, its samples perhaps in chunks.

    Members are read when their rows are.

    Raises:
        Unreadable: its samples have an unknown form, or a member is damaged or has another content.
    """
    names = list(dict.fromkeys(archive.namelist()))
    samples = [name for name in names if _SAMPLE.fullmatch(name)]
    chunks = [match for name in names if (match := _CHUNK.fullmatch(name))]
    known = {*samples, *(match[0] for match in chunks if f"{match[1]}/sample.json" in samples)}
    strange = [name for name in names if name.startswith("samples/") and name not in known and not name.endswith("/")]
    if strange:
        message = f"an inspect_ai log with the member {strange[0]!r}, of a form that is not read here"
        raise Unreadable(message, "Write it as JSON first: inspect log convert --to json.")

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
        lists = {part: member(part) for _, part in sorted(parts.items())}
        if other := next((part for part, each in lists.items() if not isinstance(each, list)), None):
            raise Unreadable(f"the member {other!r} is not a list of texts")
        texts = chain.from_iterable(cast("dict[str, list[object]]", lists).values())
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

    They have the model, and with a limit on the samples their number. Settings without the keys that scoring looks up
    are another program's.
    """
    if path.suffix != ".eval":
        return {}
    with suppress(OSError, BadZipFile, KeyError, ValueError, Unreadable), ZipFile(path) as archive:
        log = json.loads(read_member(archive, _start_of(archive.namelist())))
        settings: object = value_or_none(log, f"eval.metadata.{SETTINGS}")
        if isinstance(settings, dict) and all(isinstance(settings.get(key), kind) for key, kind in _SETTINGS.items()):
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
        numbered(map(_sample_row, samples)),
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


def _sample_row(sample: object) -> object:
    """Return the fields of a sample that importers of predictions and of scores read; a value of another type as it is.

    It has an `error`, or a `response` with the `failure` that makes it no answer, or neither.
    """
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
    if completion is None:
        return row
    return {**row, "response": completion, "failure": find_inspect_failure(sample.get("output"))}


Row = Mapping[str, object]


class ToolOutput(NamedTuple):
    """The format of one tool's rows."""

    format: str
    keys: tuple[str, ...]
    """Paths that every row has; of alternatives (separated by a bar), one."""
    fields: Mapping[str, FieldPath]
    one_of: str | None = None


def completion_text(reply: object) -> str | None:
    """Return the text of a completion in the format of any of these APIs; None where there is none.

    >>> completion_text({"body": {"choices": [{"message": {"content": [{"type": "text", "text": "[]"}]}}]}})
    '[]'
    >>> completion_text({"candidates": [{"content": {"parts": [{"text": "Hm", "thought": True}, {"text": "Yes"}]}}]})
    'Yes'
    >>> completion_text({"choices": [], "text": "Yes"})
    'Yes'

    Raises:
        Unreadable: it has several completions.
    """
    if isinstance(reply, str):
        return reply
    if isinstance(reply, list):  # the parts of a message
        texts = [each.get("text") for each in reply if isinstance(each, dict) and not each.get("thought")]
        nested = [each["content"] for each in reply if isinstance(each, dict) and "content" in each]
        all_texts = [text for text in (*texts, *map(completion_text, nested)) if isinstance(text, str)]
        return "".join(all_texts) if all_texts else None
    if not isinstance(reply, dict):
        return None
    for key in ("choices", "candidates", "completions", "outputs", "generations"):
        samples = reply.get(key)
        if isinstance(samples, list) and samples:
            if len(samples) > 1:
                message = f"a reply with {len(samples)} {key}, and one of them must be chosen"
                raise Unreadable(message, f"Write one line for each id, or map one of them: response=PATH.{key}.0...")
            return completion_text(samples[0])
    holders = ("body", "response", "message", "content", "parts", "output", "text")
    inner = (completion_text(reply[key]) for key in holders if key in reply)
    return next((text for text in inner if text is not None), None)


def _response_field(path: str) -> FieldPath:
    """Return the function row -> text of the completion at a path."""

    def text(row: Row) -> object:
        completion = completion_text(value_or_none(row, path))
        if completion is None:
            raise KeyError(path)
        return completion

    return text


def _error_field(path: str) -> FieldPath:
    """Return the function row -> error that explains a missing completion; None where there is a completion."""

    def error(row: Row) -> object:
        reply = value_or_none(row, path)
        places = ((row, "error"), (reply, "error"), (reply, "body.error"), (row, "result.error"))
        if message := next((each for each in (value_or_none(*place) for place in places) if each), None):
            return message
        try:
            return None if completion_text(reply) is not None else value_or_none(row, "result.type") or "no text"
        except Unreadable:  # several completions: the response field raises it
            return None

    return error


def _batch(words: str, keys: tuple[str, ...], example_id: str, path: str) -> ToolOutput:
    """Return the format of a batch API, whose completions are at a path."""
    return ToolOutput(words, keys, {"id": example_id, "response": _response_field(path), "error": _error_field(path)})


def _promptfoo_error(row: Row) -> object:
    """Return why a row has no output; an `error` beside an output is a failed assertion."""
    return None if value_or_none(row, "response.output") is not None else value_or_none(row, "error") or "no output"


def _promptfoo_output(row: Row) -> object:
    """Return the output of a row as text; promptfoo parses JSON outputs."""
    output = value_at(row, "response.output")
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def _graph_json(row: Row) -> object:
    """Return a graph as JSON for the parsers of completions, which resolve the ids of its nodes."""
    return json.dumps({key: row[key] for key in ("nodes", "relationships", "edges") if key in row}, ensure_ascii=False)


def _llama_index_json(row: Row) -> object:
    """Return the graph that LlamaIndex's extractors leave in a node's metadata, as JSON."""
    return json.dumps({"nodes": value_or_none(row, "metadata.nodes"), "relations": value_at(row, "metadata.relations")})


# the first one with all keys is taken, so that a format with fewer keys comes after one with more
ROWS = (
    _batch("OpenAI batch output", ("custom_id", "response"), "custom_id", "response"),
    _batch("Anthropic batch results", ("custom_id", "result.type"), "custom_id", "result.message"),
    _batch("Gemini batch output", ("key", "response.candidates|error"), "key", "response"),
    _batch("Vertex AI batch output", ("request.contents", "response"), "key", "response"),
    _batch("Amazon Bedrock batch output", ("recordId", "modelInput"), "recordId", "modelOutput"),
    ToolOutput(
        "promptfoo results",
        ("vars", "response", "promptIdx"),
        {"id": "vars.id", "response": _promptfoo_output, "error": _promptfoo_error},
        "promptIdx",
    ),
    ToolOutput(
        "lighteval details", ("doc", "model_response"), {"id": "doc.specific.id", "response": "model_response.text.0"}
    ),
    ToolOutput("graph documents", ("id", "nodes", "relationships|edges"), {"id": "id", "response": _graph_json}),
    ToolOutput("LlamaIndex nodes", ("id_", "metadata.relations"), {"id": "metadata.id", "response": _llama_index_json}),
    ToolOutput(
        "graph documents (LangChain)", ("nodes", "relationships"), {"id": "source.metadata.id", "response": _graph_json}
    ),
)
HELM = _batch("a HELM scenario state", ("request_states",), "instance.id", "result")
HELM = HELM._replace(one_of="train_trial_index")


def detect_tool(first: object) -> ToolOutput | None:
    """Return the tool that wrote a row, by its keys; None for none of them."""
    if not isinstance(first, dict) or isinstance(first.get("response"), str):
        return None
    return next((each for each in ROWS if all(_has_key(first, key) for key in each.keys)), None)


def _has_key(row: Row, key: str) -> bool:
    """Return whether a row has a value at one of the paths in a key of `ToolOutput`."""
    return any(path in row if "." not in path else value_or_none(row, path) is not None for path in key.split("|"))


def parse_tool_output(tool: ToolOutput, lines: Iterator[ParsedRow]) -> ParsedFile:
    """Return the rows of a tool's output; `--map` can use all of their fields."""
    return ParsedFile(tool.format, lines, fields=tool.fields, one_of=tool.one_of)


def parse_tool_document(document: Mapping[str, object]) -> ParsedFile | None:
    """Return the rows of a file that is one object; None where it has the format of no tool."""
    if isinstance(states := document.get("request_states"), list):
        return parse_tool_output(HELM, numbered(states))
    for rows in (document.get("results"), value_or_none(document, "results.results")):
        if isinstance(rows, list) and rows and (tool := detect_tool(rows[0])):
            return parse_tool_output(tool, numbered(rows))
    return None


_START = re.compile(rb"\s*(<\?xml[^>]*>)?\s*(<!--.*?-->\s*)?<(benchmark|entries|entry)\b", re.DOTALL)
"""A declaration, a comment, and the first element; the first bytes may end anywhere after it."""
_SET = "generatedtripleset"
_GOLD_SETS = ("modifiedtripleset", "originaltripleset")


def is_webnlg(head: bytes) -> bool:
    """Return whether a text starts like WebNLG XML."""
    return _START.match(head) is not None


def parse_webnlg(opened: OpenedFile, settings: ReadSettings) -> ParsedFile:
    """Return the triples of each entry under its `eid`.

    Raises:
        Unreadable: it is not XML, defines entities, or is the gold of the dataset.
    """
    text = opened.read()
    if b"<!ENTITY" in text:
        raise Unreadable("XML that defines entities, which are not expanded here", "Write it without them.")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 (a user's own file, without entities)
    except ElementTree.ParseError as error:
        raise Unreadable(f"not XML: {error}", "Write it again.", error.position[0]) from None
    entries = [root] if root.tag == "entry" else root.findall(".//entry")
    if entries and all(entry.find(_SET) is None for entry in entries):
        gold_set = next((name for name in _GOLD_SETS if entries[0].find(name) is not None), "no set of triples")
        remedy = "Send a system's output: <generatedtripleset><gtriple>subject | relation | object</gtriple>."
        raise Unreadable(f"WebNLG's XML with {gold_set} and no generatedtripleset: the gold, no predictions", remedy)
    fields = {"id": "id", "triples": "triples"}
    return ParsedFile("WebNLG's XML", _webnlg_rows(entries), fields=fields, empty="it has no entry")


def _webnlg_rows(entries: list[ElementTree.Element]) -> Iterator[ParsedRow]:
    """Yield the attributes of each entry with its `id` and `triples`; rows are numbered, as XML keeps no lines.

    Raises:
        Unreadable: a triple has not three parts.
    """
    for number, entry in enumerate(entries, start=1):
        names = {**entry.attrib, "id": entry.get("eid") or entry.get("id")}
        texts = [each.text or "" for each in entry.findall(f"{_SET}/gtriple")]
        triples = [[part.strip() for part in text.split("|")] for text in texts if text.strip()]
        if wrong := next((text for text, triple in zip(texts, triples, strict=False) if len(triple) != 3), None):
            message = f"entry {number}: {wrong!r} is not 'subject | relation | object'"
            raise Unreadable(message, "Write two bars in each.")
        yield ParsedRow(number, {**names, "triples": triples})

"""What a model is called: `name[:model][(parts)][@key=value,...]`, as the command line and a run's record spell it.

Retrievers, runners and training parse their names with it. `str` of a `Spec` is stored in runs and results: spellings
that were ever accepted must parse to the same.

>>> spec = parse("rrf(bm25,dense:sentence-transformers/all-MiniLM-L6-v2@batch=32)@k=60")
>>> spec.name, [part.name for part in spec.parts], spec.parts[1].model, spec.options
('rrf', ['bm25', 'dense'], 'sentence-transformers/all-MiniLM-L6-v2', {'k': '60'})
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from kbbench_hf.errors import UsageError

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_OPTION = re.compile(r"([a-z][a-z0-9_]*)=([^,()@]*)")
_MODEL = re.compile(r"(?:[^,()@]|@(?![a-z][a-z0-9_]*=))+")

_KIND = re.compile(r"(?<![\w:/.-])[A-Za-z]\w*(?=[:(,)@])")
"""What may be written in capitals: the kind of a retriever, and not the name of its model."""
_CHAT_MODEL = re.compile(
    r"gpt|llama|mistral|mixtral|qwen|claude|gemini|gemma|deepseek|falcon|olmo|smollm|instruct|chat|\bphi-|(^|/)o[134]\b"
)
_EMBEDDER = re.compile(r"embed|\be5|bge|gte|minilm|mpnet|sentence-|contriever|colbert|\bdpr")
KINDS = "bm25, graph:bm25, dense:MODEL, late:MODEL, multi:MODEL, rrf(bm25,dense:MODEL)"
"""The retrievers that most people want, as they are written."""

Option = tuple[Callable[[str], object], object]
"""The type of an option, a function of its text that raises ValueError, and its default."""
Options = dict[str, Any]
"""Option -> its value, converted by its type."""
OVER_A_MODEL = frozenset({"graph"})
"""Models whose `:` is followed by another model, the one that they start from: `graph:bm25` is `graph(bm25)`."""


@dataclass(frozen=True)
class Spec:
    """A parsed model name; `str` gives its canonical spelling, with options in alphabetical order."""

    name: str
    model: str = ""
    """What stands after the colon: a name on the Hub or a folder."""
    parts: tuple["Spec", ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the spelling that `parse` reads as this."""
        parts = f"({','.join(map(str, self.parts))})" if self.parts else ""
        options = ",".join(f"{key}={value}" for key, value in sorted(self.options.items()))
        return f"{self.name}{':' if self.model else ''}{self.model}{parts}{'@' if options else ''}{options}"

    def with_parts(self) -> list["Spec"]:
        """Return this and all models that it is made of.

        >>> [each.name for each in parse("graph(rrf(bm25,dense:org/a))").with_parts()]
        ['graph', 'rrf', 'bm25', 'dense']
        """
        return [self, *(each for part in self.parts for each in part.with_parts())]

    def renamed(self, rename: Callable[[str], str]) -> "Spec":
        """Return this with another name for each model on the Hub or folder in it.

        >>> str(parse("rrf(bm25,dense:org/a@batch=8)").renamed(lambda model: model.upper()))
        'rrf(bm25,dense:ORG/A@batch=8)'
        """
        parts = tuple(part.renamed(rename) for part in self.parts)
        return replace(self, model=rename(self.model) if self.model else "", parts=parts)

    def read(self, **known: Option) -> Options:
        """Return the value of each known option, given as `key=(type, default)`; a default of None may stay None.

        Raises:
            UsageError: an option that is not known, or a value that is not of its type.

        >>> parse("bm25@b=0.5").read(k1=(float, 1.5), b=(float, 0.75))
        {'k1': 1.5, 'b': 0.5}
        """
        for key in self.options:
            if key not in known:
                close = get_close_matches(key, known, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise UsageError(f"{self.name} has no option {key!r}.{hint} Known: {', '.join(known) or 'none'}.")
        values = {}
        for key, (convert, default) in known.items():
            try:
                values[key] = convert(self.options[key]) if key in self.options else default
            except ValueError as error:
                raise UsageError(f"{self.name}@{key}={self.options[key]}: {error}. Change the value.") from None
        return values


def parse(text: str) -> Spec:
    """Read a model's name.

    An option belongs to the model before its `@`; brackets give it to the whole: `graph(bm25@b=0.5)@hops=1`.

    Raises:
        UsageError: the text is not of the form; the message points at the place.
    """
    try:
        spec, end = _parse_spec(text, 0)
    except RecursionError:
        raise UsageError(f"{text[:40]!r}... nests too many models; expected few. Write a shorter name.") from None
    if end < len(text):
        raise _unexpected_error(text, end, "the end")
    return spec


def hub_name(text: str) -> tuple[str, str | None]:
    """Return the name on the Hub, or the folder, and the revision behind its `@`; None where it names none.

    >>> hub_name("org/model@v1.0"), hub_name("org/model")
    (('org/model', 'v1.0'), ('org/model', None))
    """
    name, at, revision = text.rpartition("@")
    if not at or Path(text).expanduser().exists():
        return text, None
    if not name or not revision:
        raise UsageError(f"{text!r} lacks the model or the revision; expected hf:ORG/MODEL@REVISION. Write both.")
    return name, revision


def one_of(*values: str) -> Callable[[str], str]:
    """Return a type for `Spec.read` that takes one of `values`; ValueError for any other."""

    def read(value: str) -> str:
        if value not in values:
            raise ValueError(f"expected {', '.join(values[:-1])} or {values[-1]}")
        return value

    return read


def yes_or_no(value: str) -> bool:
    """Return whether an option is `yes`; ValueError where it is neither `yes` nor `no`."""
    return one_of("yes", "no")(value) == "yes"


def positive(value: str) -> int:
    """Return the whole number of an option; ValueError where it is none, or below 1."""
    if not value.isdecimal() or int(value) < 1:
        raise ValueError("expected a whole number from 1 up")
    return int(value)


def _parse_spec(text: str, start: int) -> tuple[Spec, int]:
    """Return the model whose name begins at a position, and where it ends; UsageError where none does."""
    name = _NAME.match(text, start)
    if not name:
        raise _unexpected_error(text, start, "a model name")
    end, model = name.end(), ""
    parts: list[Spec] = []
    if text[end : end + 1] == ":":
        if name[0] in OVER_A_MODEL:
            part, end = _parse_spec(text, end + 1)
            return Spec(name[0], parts=(part,)), end
        found = _MODEL.match(text, end + 1)
        if not found:
            raise _unexpected_error(text, end + 1, f"which model {name[0]} uses")
        model, end = found[0], found.end()
    if text[end : end + 1] == "(":
        while not parts or text[end : end + 1] == ",":
            part, end = _parse_spec(text, end + 1)
            parts.append(part)
        if text[end : end + 1] != ")":
            raise _unexpected_error(text, end, "',' or ')'")
        end += 1
    options: dict[str, str] = {}
    if text[end : end + 1] == "@":
        while option := _OPTION.match(text, end + 1):
            if option[1] in options:
                raise UsageError(f"{text!r} gives {option[1]!r} twice; expected one value. Keep one.")
            options[option[1]], end = option[2], option.end()
            if text[end : end + 1] != ",":
                break
        if not options:
            raise _unexpected_error(text, end + 1, "key=value")
    return Spec(name[0], model, tuple(parts), options), end


def _unexpected_error(text: str, at: int, expected: str) -> UsageError:
    """Return the error for a name that goes wrong at a position, with the likely spelling where there is one."""
    if hint := did_you_mean(text):
        return UsageError(f"Unknown model {text!r}.{hint} Retrievers: {KINDS}.")
    found = repr(text[at]) if at < len(text) else "the end"
    return UsageError(
        f"{text!r} is not a valid model name: found {found} at character {at + 1}, expected {expected}. "
        f"Retrievers: {KINDS}."
    )


def did_you_mean(text: str) -> str:
    """Return " Did you mean ...?" with the likely spelling of a retriever; empty where none is likely.

    >>> did_you_mean("Okapi-BM25"), did_you_mean("BAAI/bge-m3"), did_you_mean("RRF(BM25,dense:Org/A)")
    (' Did you mean bm25?', ' Did you mean dense:BAAI/bge-m3?', ' Did you mean rrf(bm25,dense:Org/A)?')
    """
    lower = text.lower()
    if lower.startswith(("hf:", "llm:", "cross:")):
        server = "" if "hf:" in lower else " --base-url URL"
        named = text if lower.startswith("cross:") else f"llm:{text.removeprefix('llm:')}"
        return f" Did you mean bm25 --rerank {named}{server}?"
    letters = re.sub(r"[\s_-]", "", lower)
    plain = {"graphbm25": "graph:bm25", "graph:bm25": "graph:bm25"}.get(letters, "")
    if letters.startswith("bm25") or letters == "okapibm25":
        plain = "bm25"
    found = plain or _KIND.sub(lambda kind: kind[0].lower(), text)
    if found == text or not _is_spec(found):
        if not re.fullmatch(r"[\w./~-]+", text) or "text-embedding-" in lower:  # a provider's, and no folder
            return ""
        if is_chat_model(text):
            found = f"bm25 --rerank llm:{text} --base-url URL"
        elif "/" in text or _EMBEDDER.search(lower):
            found = f"{'late' if 'colbert' in lower else 'dense'}:{text}"
        else:
            return ""
    return f" Did you mean {found}?"


def is_chat_model(name: str) -> bool:
    """Return whether a name is probably a language model's, by the families that are used most."""
    return bool(_CHAT_MODEL.search(name.lower())) and not _EMBEDDER.search(name.lower())


def is_retriever(name: str) -> bool:
    """Return whether a name is a retriever's, in any usual spelling, or probably an embedding model's.

    >>> [is_retriever(name) for name in ("BM25", "dense:x", "BAAI/bge-m3", "google/flan-t5-base", "gpt-4o")]
    [True, True, True, False, False]
    """
    kinds = r"(?:okapi[\s_-]?)?bm[\s_-]?25|graph[:-]|(?:dense|late|multi|vss|multi_vss|search|plan)(?::|$)|\w+\("
    return bool(re.match(kinds, name.lower()) or _EMBEDDER.search(name.lower()))


def _is_spec(text: str) -> bool:
    try:
        return bool(parse(text))
    except UsageError:
        return False

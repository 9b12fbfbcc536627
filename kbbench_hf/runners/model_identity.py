"""Identity of the server and model of a run, stored in `servers.json` before the first request.

`generate` uses it. A resumed run refuses another address, model or digest before it sends a request. Replies are
counted by model, fingerprint and provider. The name of the first server is part of the keys of the journal, and
`servers.json` is read by later versions: both stay as they are.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.files.datasets import read_json
from kbbench_hf.files.journal import Record
from kbbench_hf.files.shards import IncompleteError
from kbbench_hf.files.writing import write_new, write_text
from kbbench_hf.protocols import Completion, name_of

SERVERS = "servers.json"
"""The file with the servers of a run, in order: their identity, and the form of their requests (`dialect`)."""
Who = tuple[str | None, str | None, str | None]
"""Model, fingerprint and provider of a reply."""


class OtherServerError(UsageError):
    """The stored responses of a run are of another server or model than the present one."""


class Identity:
    """The servers and models that answered so far; `observe` all records of the journal, then `meet` the present model.

    Of a group of processes one `writes`; shards (`shared`) all do, each the same. `allow_other` lets another server
    resume a run; its result then has a warning. `one` refuses a second fingerprint or provider.
    """

    def __init__(
        self,
        folder: Path,
        *,
        allow_other: bool = False,
        one: bool = False,
        writes: bool = True,
        shared: bool = False,
    ) -> None:
        self.allow_other, self.one, self._shared = allow_other, one, shared
        self._file, self._writes = folder / SERVERS, writes
        self.servers: list[dict[str, Any]] = self._read_servers()
        """The servers of the run, in order, as `servers.json` has them."""
        self.answered_by: Counter[Who] = Counter()
        self._known: set[str] = set()
        self._trusted = False

    def observe(self, record: Record) -> None:
        """Count the reply of a record of the journal; failed requests without a reply do not count."""
        if record.get("finish_reason") is not None:
            who = (record.get("model"), record.get("system_fingerprint"), record.get("provider"))
            if record["id"] is not None:
                self.answered_by[who] += 1
            if who[0]:
                self._known.add(who[0])

    def meet(self, model: object) -> str:
        """Compare the present model with the stored servers, and return its name in the keys of this run.

        A model without an `identity` is not compared: its name is part of every key, so that it shares no response with
        another model. The model gets the stored `dialect`.

        Raises:
            OtherServerError: the folder holds responses of another server or model.
        """
        own = getattr(model, "identity", None)
        if own is None:
            return name_of(model)
        now = {"name": name_of(model), **own}
        if self._shared and self._writes:
            # of the shards that start at once, one writes the file, and the others compare
            write_new(self._file, _to_text([now]).encode())
            self.servers = self._read_servers()
        elif not self.answered_by:
            self.servers.clear()  # a server that answered nothing has no responses to protect
        before = dict(self.servers[-1]) if self.servers else None
        dialect = before.pop("dialect", None) if before is not None else None
        if hasattr(model, "dialect"):
            if dialect:
                model.dialect = type(model.dialect).of(dialect)
            dialect = model.dialect.changes()  # perhaps learned in another folder: configs of a testbed share a model
        if before is not None and before != now and not self.allow_other:
            raise OtherServerError(
                f"{self._file.parent} holds answers of another server or model: {_differences(before, now)}. "
                "Use the first one, name another folder (--out), or add --allow-other-server."
            )
        if before != now:
            self._write(now | ({"dialect": dialect} if dialect else {}))
        return str(self.servers[0]["name"])

    def recall(self, model: object) -> str:
        """Return the model's name in the keys of a run that its shards answered; its server may be gone.

        Raises:
            IncompleteError: the disk does not show `servers.json` yet.
        """
        if not hasattr(model, "complete") or getattr(model, "identity", None) is None:
            return self.meet(model)
        if not self.servers:
            raise IncompleteError(self._file.parent, 1, 1, f"files {SERVERS}")
        return str(self.servers[0]["name"])

    def said_otherwise(self, changes: Mapping[str, object]) -> None:
        """Store the changed form of requests of the present server."""
        if self.servers and self.servers[-1].get("dialect") != changes:
            self._write({**self.servers[-1], "dialect": dict(changes)})

    def check(self, completion: Completion) -> None:
        """Check the model, fingerprint and provider of a reply before it is recorded.

        Raises:
            OtherServerError: the first reply of this start is of another model than the stored ones.
            KBBenchError: with `one`, any of the three has changed.
        """
        model = completion.model
        if model and not self._trusted:
            self._trusted = True
            if self._known and model not in self._known and not self.allow_other:
                raise OtherServerError(
                    f"The responses of this run are from the model {', '.join(sorted(self._known))}, not from "
                    f"{model!r}. Use the first one, name another folder (--out), or add --allow-other-server."
                )
        who = (model, completion.system_fingerprint, completion.provider)
        if self.one and self.answered_by and who not in self.answered_by:
            raise KBBenchError(
                f"Another server answers now: {_describe(who)}, after {_describe(next(iter(self.answered_by)))}. "
                "--one-server takes the answers of one only; those that were recorded are kept."
            )

    def warnings(self) -> Iterator[ScoreWarning]:
        """Yield the warnings of a result on its servers: several ones, changes, a router, parameters left out."""
        seen = [{name: value for name, value in each.items() if name != "dialect"} for each in self.servers]
        others = [each for each in seen if each != seen[0]]
        if others:
            message = f"Several servers answered, as was allowed: {_differences(seen[0], others[-1])}."
            yield ScoreWarning("several_servers", message, "Run it on one server, to compare it.")
        for place, what in ((0, "models"), (1, "fingerprints"), (2, "providers")):
            counts: Counter[str] = Counter()
            for who, n in self.answered_by.items():
                if who[place]:
                    counts[str(who[place])] += n
            if len(counts) > 1:
                ((_, most), *_) = counts.most_common()
                names = ", ".join(f"{name} ({n:,})" for name, n in counts.most_common(5))
                message = f"The replies name {len(counts)} {what}: {names}; the server changed during the run."
                remedy = "Each prediction records its server; use --one-server to allow no change."
                yield ScoreWarning(f"several_{what}", message, remedy, counts.total() - most)
        last = self.servers[-1] if self.servers else {}
        if last.get("kind") == "hf-router" and ":" not in str(last.get("model")):
            message = "Hugging Face's router chose the provider of each request: two of them may have answered."
            remedy = f"Name one in the model, {last.get('model')}:PROVIDER, in runs that are to be compared."
            yield ScoreWarning("provider_not_named", message, remedy)
        dialect = last.get("dialect", {})
        if left_out := dialect.get("left_out"):
            message = f"The server takes no {', '.join(left_out)}: these were left out, and it sampled in its own way."
            yield ScoreWarning("parameters_left_out", message, "Compare it with runs that lack them too.")

    def _read_servers(self) -> list[dict[str, Any]]:
        return list(read_json(self._file)["servers"]) if self._file.is_file() else []

    def _write(self, server: dict[str, Any]) -> None:
        if self._shared:
            self.servers = self._read_servers()
        if server not in self.servers[-1:]:
            self.servers.append(server)
        if self._writes:
            write_text(self._file, _to_text(self.servers))


def _to_text(servers: list[dict[str, Any]]) -> str:
    return json.dumps({"servers": servers}, indent=2) + "\n"


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the differences of two servers in words."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if len(names) > 1 and "name" in names:  # the name is made of the other fields
        names.remove("name")
    return "; ".join(f"its {name} is {before.get(name)!r}, not {now.get(name)!r}" for name in names)


def _describe(who: Who) -> str:
    named = zip(("model", "fingerprint", "provider"), who, strict=True)
    return ", ".join(f"{what} {name!r}" for what, name in named if name) or "a server without a fingerprint"

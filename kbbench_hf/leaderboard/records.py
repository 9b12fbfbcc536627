"""Records of submissions: the described system, the stored record, the receipt."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from kbbench_hf.leaderboard.likeness import GoldLikeness

RECORD = "record.json"


@dataclass(frozen=True)
class System:
    """What a submitter says of the system: shown on the board as they wrote it."""

    name: str
    link: str = ""
    licence: str = ""
    parameters_b: float | None = None
    """Size in billions of parameters."""
    latency_p50_s: float | None = None
    latency_p95_s: float | None = None
    cost_per_1000_usd: float | None = None
    notes: str = ""


@dataclass(frozen=True)
class Record:
    """One stored submission: what was submitted, by whom, and the hash of each of its files."""

    id: str
    benchmark: str
    config: str
    split: str
    mode: str
    dataset_revision: str
    predictions_sha256: str
    system: System
    submitter: str
    origin: str
    """`submitted` by a user; by whoever runs the board: one of their `own` runs, or answers `released` by others."""
    files: Mapping[str, str] = field(default_factory=dict)
    vouched_by: str = ""
    """The account under which the name stands, `ada/KOTO`, whose owner or member the submitter was; mostly none."""
    gold: GoldLikeness | None = None
    """How many answers are exactly the gold; None where it was stored before that was counted."""

    def to_bytes(self) -> bytes:
        """Return the record's file."""
        values = {**vars(self), "system": vars(self.system)}
        return json.dumps(values, sort_keys=True, ensure_ascii=False, indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> "Record":
        """Return the record of a file."""
        values = json.loads(data)
        gold = values.get("gold")
        return cls(**{**values, "system": System(**values["system"]), "gold": gold and GoldLikeness(*gold)})


@dataclass(frozen=True)
class Receipt:
    """What a submitter gets: the id, whether it was there already, and whether it now says something else."""

    id: str
    existed: bool
    edited: bool = False

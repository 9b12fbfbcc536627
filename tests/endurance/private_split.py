"""The private split of the real sources: what remains of the original names, and what programs say. A few minutes.

python -m tests.endurance.private_split ../shared/data/ska_open_v1
"""

import re
import sys
from collections import Counter
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.units import Instance, InstanceSet
from kbbench_hf.building.ska_bench.name_matching import mentions, normal_name
from kbbench_hf.building.ska_bench.private import RENAMERS, rename_instances
from kbbench_hf.building.ska_bench.programs import execute, same_answers
from kbbench_hf.building.ska_bench.sources import make_instances


def form(program: object) -> object:
    """Return a program without its words and numbers."""
    if isinstance(program, dict):
        return {key: value if key in ("type", "select", "find", "op", "formula") else form(value)
                for key, value in program.items()}  # fmt: skip
    return [form(each) for each in program] if isinstance(program, list | tuple) else type(program)


def main(source: Path) -> None:
    """Print what is counted of the split with a seed."""
    release = make_instances(source, tuple(RENAMERS))
    made, left_out = rename_instances(release, "a seed for this check")
    before = {instance.id: instance for instance in release.instances}
    print(f"left out of {len(before):,}: {dict(Counter(left_out.values())) or 'none'}")
    print("another form of program:", sum(form(i.program) != form(before[i.id].program) for i in made.instances))
    print("programs without their gold:", sum(not _gives_gold(i, made) for i in made.instances))
    for subset in RENAMERS:
        remaining = [
            each for i in made.instances if i.subset == subset for each in _remaining(before[i.id], release, i, made)
        ]
        print(f"{subset}: original names that remain in question, gold or units: {len(remaining):,}", remaining[:12])
    changed = Counter(i.subset for i in made.instances if i.question != before[i.id].question)
    print(f"questions that changed: {dict(changed)}")


def _gives_gold(instance: Instance, made: InstanceSet) -> bool:
    found = execute(instance.program or {}, made.pools[instance.subset].structured(instance))
    return bool(found) and (same_answers(found, instance.answers) or instance.answer_type == "number")


def _remaining(old: Instance, release: InstanceSet, new: Instance, made: InstanceSet) -> list[str]:
    """Return the names among an instance's positive cells and topics that are still in its texts, or its cells."""
    positive = [release.pools[old.subset].structured(old)[n] for n in old.positive_sk]
    after = [made.pools[new.subset].structured(new)[n] for n in new.positive_sk]
    pairs = {(a, b) for rows in zip(positive, after, strict=True) for a, b in zip(*rows, strict=True) if a != b}
    names = {normal_name(a) for a, b in pairs if re.search(r"[^\W\d_]", a)} | set(map(normal_name, old.topics))
    texts = [normal_name(text) for text in (new.question, *new.answers, *(cell for row in after for cell in row))]
    return sorted({name for name in names if not name.isdigit() and any(mentions(text, name) for text in texts)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))

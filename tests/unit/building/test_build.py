"""`kbbench_hf.build` and `kbbench_hf.synthesize` do in Python what the commands do."""

from pathlib import Path

import pytest

import kbbench_hf
from kbbench_hf.cli.build import command

NODES = "id,type,name,text\n1,dish,Leek pie,Baked leeks.\n2,cook,Ann,\n"


def test_python_builds_the_same_bytes_as_the_command(in_tmp: Path) -> None:
    (in_tmp / "n.csv").write_text(NODES.replace("name", "label"), encoding="utf-8")
    (in_tmp / "e.csv").write_text("head,relation,tail\n2,cooks,1\n2,cooks,9\n", encoding="utf-8")
    given = "mine --nodes n.csv --edges e.csv --map nodes.name=label --skip-dangling --out by-command"
    command.main(given.split(), standalone_mode=False)
    mapped = {"nodes.name": "label"}
    folder = kbbench_hf.build("mine", nodes="n.csv", edges=Path("e.csv"), map=mapped, skip_dangling=True)
    assert folder.path == Path("kbbench/mine") and len(folder.left_out) == 1
    assert folder.revision == kbbench_hf.DatasetFolder(in_tmp / "by-command").revision
    questions = kbbench_hf.synthesize("mini-stark", 12, out="asked", show=False)
    assert questions.n_rows("train")["queries"] > 0 and questions.path == Path("kbbench/asked")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nodse": "n.csv"}, "Did you mean 'nodes'"),
        ({"nodes": "absent.csv"}, "absent.csv"),
        ({"graph": "absent"}, "absent"),
        ({"nodes": "n.csv", "map": {"id": "x"}}, "--map has 'id=x'"),
        ({"revision": 0}, "one revision"),
        ({"archive": "absent.zip"}, "--archive"),
    ],
)
def test_a_wrong_call_is_refused_and_writes_nothing(in_tmp: Path, options: dict[str, str], words: str) -> None:
    (in_tmp / "n.csv").write_text(NODES, encoding="utf-8")
    name = "stark-prime" if "revision" in options or "archive" in options else "mine"
    with pytest.raises(kbbench_hf.UsageError, match=words):
        kbbench_hf.build(name, **options)  # type: ignore[arg-type]
    assert [*in_tmp.iterdir()] == [in_tmp / "n.csv"]

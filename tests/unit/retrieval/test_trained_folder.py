"""What was trained here and published ranks elsewhere as it did here, with nothing else of this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sentence_transformers")

from kbbench_hf.errors import UsageError
from kbbench_hf.retrieval.trained_folder import portable, publication, trained_folder
from kbbench_hf.runners.run import run
from kbbench_hf.training.train import train
from tests.servers.hub import local_hub
from tests.tiny_encoder import tiny_encoder
from tests.unit.training.worlds import build_world

ROOT = Path(__file__).parents[3]
NAMES = ["ada", "bo", "cy", "di", "eve", "fay"]
ELSEWHERE = """
from kbbench_hf.cli.verbs import kbbench
from pathlib import Path
kbbench.main(["publish", "mine/fused", "--namespace", "org", "--yes"], standalone_mode=False)
for folder in ("mine", "encoder"):
    Path(folder).rename("gone-" + folder)
for model, out in (("fuse:org/fused", "there"), ("qagnn:org/fused", "nowhere")):
    try:
        kbbench.main(["run", "people", "--model", model, "--out", out], standalone_mode=False)
    except Exception as error:
        print("refused:", error)
"""


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a small knowledge base of who knows whom."""
    nodes = [(f"p{n}", "person", name) for n, name in enumerate(NAMES)]
    edges = [(f"p{n}", "knows", f"p{(n + 1) % len(NAMES)}") for n in range(len(NAMES))]
    splits = ["train", "validation", "test"]
    asked = [(f"whom knows {name}", [f"p{(n + 1) % len(NAMES)}"], splits[n % 3]) for n, name in enumerate(NAMES)]
    build_world(tmp_path, "people", nodes, edges, asked)
    tiny_encoder(tmp_path / "encoder", [*NAMES, "whom knows name type person"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_a_published_fusion_of_a_network_ranks_where_no_folder_of_this_machine_is(people: Path) -> None:
    quick = {"show": False, "epochs": 1, "evaluations": 1}
    over = "weighted(bm25,dense:encoder/model)"
    network = train("people", "qagnn", str(people / "encoder/model"), "mine/net", first_stage=over, layers=1, **quick)
    fused = train("people", "fuse", f"weighted(bm25,{network.model},dense:encoder/model)", "mine/fused", show=False)
    run("people", fused.model, out=people / "here", show=False)
    files = portable(people / "mine/fused")
    assert [path for path in files if path.endswith("qagnn.json")] == ["models/net/qagnn.json"]
    assert str(people) not in "".join(content.decode() for content in files.values() if isinstance(content, bytes)), (
        "a folder of this machine is named"
    )
    with local_hub() as hub:
        environment = {**os.environ, **hub.environment(str(people / "home")), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", ELSEWHERE],
            cwd=people, env=environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "refused: org/fused holds no qagnn.json" in done.stdout
    predictions = [(people / folder / "predictions.jsonl").read_text() for folder in ("here", "there")]
    assert predictions[0] == predictions[1] and len(predictions[0].splitlines()) == 2


def test_folders_of_one_name_lie_beside_each_other_and_names_on_the_hub_stay(tmp_path: Path) -> None:
    for folder in ("a/m", "b/m"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "weights").write_text(folder)
    parts = [
        f"dense:{tmp_path / 'a/m'}",
        f"late:{tmp_path / 'b/m'}@batch=8",
        f"dense:{tmp_path / 'a/m'}",
        "dense:org/m",
    ]
    (tmp_path / "f").mkdir()
    (tmp_path / "f/fusion.json").write_text(json.dumps({"parts": parts, "weights": [1, 1, 1, 1]}))
    files = portable(tmp_path / "f")
    assert json.loads(files["fusion.json"])["parts"] == [  # type: ignore[arg-type]
        "dense:models/m",
        "late:models/m-2@batch=8",
        "dense:models/m",
        "dense:org/m",
    ]
    assert {path: content.read_text() for path, content in files.items() if isinstance(content, Path)} == {
        "models/m/weights": "a/m",
        "models/m-2/weights": "b/m",
    }


def test_what_is_not_trained_to_its_end_or_names_what_is_gone_is_not_published(tmp_path: Path) -> None:
    (tmp_path / "fusion.json").write_text(json.dumps({"parts": ["dense:/gone/model", "bm25"], "weights": [1, 1]}))
    with pytest.raises(UsageError, match="not trained to its end"):
        publication(tmp_path, "me")
    (tmp_path / "README.md").touch()
    with pytest.raises(UsageError, match="names the model /gone/model, which is not here"):
        publication(tmp_path, "me")


@pytest.mark.parametrize("model", ["", "gone", "/gone/away", "./a/b/c"])
def test_a_model_that_is_neither_a_folder_nor_a_name_is_refused_without_asking_the_hub(model: str) -> None:
    with pytest.raises(UsageError, match="does not exist; expected the folder of: kbbench train --method fuse, or its"):
        trained_folder(model, "fusion.json", "fuse")

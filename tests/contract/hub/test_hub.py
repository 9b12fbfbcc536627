"""Published datasets, metrics and results, through unmodified clients in a fresh process with an empty cache."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from tests.contract.modules import EVALUATE
from tests.servers.hub import LocalHub, local_hub

Client = Callable[..., str]
VERSION = version("kbbench-hf")
WHEEL = f"kbbench_hf-{VERSION}-py3-none-any.whl"
QUICKER = "import gc; gc.disable()\n"
"""A seventh of the time of imports."""
KBBENCH = "from kbbench_hf.cli.verbs import kbbench; kbbench.main({!r}, standalone_mode=False)"


@pytest.fixture(scope="module")
def hub() -> Iterator[LocalHub]:
    with local_hub() as server:
        yield server


@pytest.fixture
def client(hub: LocalHub, tmp_path: Path) -> Client:
    """Run Python code in a process of its own against the hub, with an empty cache, and return what it prints."""
    return _client(hub, tmp_path)


def _client(hub: LocalHub, folder: Path) -> Client:
    def run(code: str, expect: int = 0) -> str:
        environment = {**os.environ, **hub.environment(str(folder / "hf"))}
        environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[3])
        command = [sys.executable, "-W", "ignore", "-c", f"{QUICKER}{code}"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == expect, done.stderr[-3000:]
        return done.stdout

    return run


@pytest.fixture(scope="module")
def published(hub: LocalHub, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Publish mini-text2kg and mini-stark, and the first for other owners too."""
    targets = [["mini-text2kg"], ["mini-stark"]]
    targets += [["mini-text2kg", "--namespace", owner] for owner in ("somebody", "changed", "faulty")]
    commands = (KBBENCH.format(["publish", *target, "--yes"]) for target in targets)
    _client(hub, tmp_path_factory.mktemp("published"))("\n".join(commands))


def publish(client: Client, target: str, *options: str) -> str:
    return client(KBBENCH.format(["publish", target, "--yes", *options]))


@pytest.mark.usefixtures("published")
def test_a_published_dataset_loads_every_config_in_a_fresh_process(client: Client, hub: LocalHub) -> None:
    printed = client(
        "from datasets import get_dataset_config_names, load_dataset\n"
        "for config in get_dataset_config_names('kbbench/mini-text2kg'):\n"
        "    loaded = load_dataset('kbbench/mini-text2kg', config)\n"
        "    streamed = load_dataset('kbbench/mini-text2kg', config, streaming=True)\n"
        "    for split in loaded:\n"
        "        assert next(iter(streamed[split])) == loaded[split][0]\n"
        "    print(config, {split: len(rows) for split, rows in loaded.items()})\n"
        "print(load_dataset('kbbench/mini-text2kg', split='test[:2]')['id'])"
    )
    assert {line.split()[0] for line in printed.splitlines()[:-1]} == {
        "ontologies",
        "prompts",
        "sentences",
        "sentences_folded",
    }
    assert "eval.yaml" in hub.repos["dataset", "kbbench/mini-text2kg"].commits[-1][1]


@pytest.mark.usefixtures("published")
def test_scoring_fetches_only_what_it_reads_of_the_hubs_copy_and_only_once(client: Client, hub: LocalHub) -> None:
    score = (
        "import kbbench_hf.benchmarks as benchmarks\n"
        "from kbbench_hf.scoring.score import score\n"
        "answers = benchmarks.shipped_answers('mini-text2kg')[1]\n"
        "benchmarks.at_hand = lambda name: None\n"
        "print(score(answers, 'mini-text2kg').scores['f1'].value)"
    )
    hub.log.clear()
    assert client(score).startswith("0.626")
    fetched = {path.rpartition("/data/")[2] for method, path in hub.log if method == "GET" and "/data/" in path}
    assert fetched == {"ontologies/full.parquet", "sentences/test.parquet"}
    hub.log.clear()
    client(score)
    assert not [path for _, path in hub.log if "/data/" in path], "a file that is here was asked for again"
    hub.fault = lambda method, path: "timeout"
    try:
        assert client(score).startswith("0.626"), "what was fetched serves without the Hub"
    finally:
        hub.fault = lambda method, path: None


@pytest.mark.usefixtures("published")
def test_rankings_are_checked_by_the_hubs_questions_without_its_knowledge_base(client: Client, hub: LocalHub) -> None:
    hub.log.clear()
    printed = client(
        "import kbbench_hf.benchmarks as benchmarks\n"
        "from kbbench_hf.benchmarks.retrieval_statistics import explain\n"
        "from kbbench_hf.scoring.eval_task import load_examples\n"
        "benchmarks.at_hand = lambda name: None\n"
        "asked = load_examples('mini-stark')\n"
        "print(len(asked.examples.context.candidates.ids), explain(asked.examples, asked.examples.rows[0], [1]))"
    )
    assert printed.startswith("281 ")
    assert not [path for _, path in hub.log if "/data/edges" in path]


@pytest.mark.usefixtures("published")
def test_datasets_of_another_owner_are_listed_and_read_where_one_is_named(client: Client) -> None:
    listed, place = client(
        "import os; os.environ['KBBENCH_DATASETS'] = 'somebody'\n"
        "import kbbench_hf.benchmarks as benchmarks\n"
        "from kbbench_hf.hub.download import datasets_on_hub\n"
        "print(*datasets_on_hub())\n"
        "benchmarks.at_hand = lambda name: None\n"
        "folder = benchmarks.find_dataset('mini-text2kg')\n"
        "folder.verify()\n"
        "print(folder.path)"
    ).splitlines()
    assert listed == "mini-text2kg" and "datasets--somebody--mini-text2kg" in place


@pytest.mark.usefixtures("published")
def test_publishing_twice_sends_nothing_the_second_time(client: Client, hub: LocalHub) -> None:
    n_commits = len(hub.repos["dataset", "kbbench/mini-text2kg"].commits)
    assert "Nothing to send" in publish(client, "mini-text2kg")
    assert len(hub.repos["dataset", "kbbench/mini-text2kg"].commits) == n_commits


def test_a_dry_run_shows_what_would_change_and_sends_nothing(client: Client, hub: LocalHub) -> None:
    printed = publish(client, "ranking", "--namespace", "dry", "--dry-run")
    assert "+ ranking.py" in printed and ("space", "dry/ranking") not in hub.repos


@pytest.mark.usefixtures("published")
def test_a_change_on_the_hub_is_shown_and_undone(client: Client, hub: LocalHub) -> None:
    repo = hub.repos["dataset", "changed/mini-text2kg"]
    repo.commit("main", {**repo.commits[-1][1], "README.md": b"other", "stray.txt": b"?"})
    printed = publish(client, "mini-text2kg", "--namespace", "changed")
    assert "~ README.md" in printed and "- stray.txt" in printed and "+ " not in printed.replace("+ 0", "")
    assert "stray.txt" not in repo.commits[-1][1]


@pytest.mark.usefixtures("published")
def test_faults_of_the_hub_leave_either_the_old_or_the_new_commit(client: Client, hub: LocalHub) -> None:
    repo = hub.repos["dataset", "faulty/mini-text2kg"]
    repo.commit("main", {})
    before = len(repo.commits)
    hub.fault = lambda method, path: "412" if "/commit/" in path else None
    try:
        client(KBBENCH.format(["publish", "mini-text2kg", "--namespace", "faulty", "--yes"]), expect=1)
        assert len(repo.commits) == before
    finally:
        hub.fault = lambda method, path: None
    publish(client, "mini-text2kg", "--namespace", "faulty")
    assert len(repo.commits) == before + 1


def test_results_become_a_pull_request_on_the_model(client: Client, hub: LocalHub, tmp_path: Path) -> None:
    printed = client(
        "from huggingface_hub import HfApi; HfApi().create_repo('org/model', exist_ok=True)\n"
        "from kbbench_hf.benchmarks import shipped_answers\n"
        "from kbbench_hf.cli.verbs import kbbench\n"
        "file = str(shipped_answers('mini-text2kg')[1])\n"
        "kbbench.main(['score', file, '--benchmark', 'mini-text2kg', '--out', 'run'], standalone_mode=False)\n"
        "kbbench.main(['export', 'run', '--pull-request', 'org/model'], standalone_mode=False)"
    )
    assert "/org/model/discussions/1" in printed
    files = hub.repos["model", "org/model"].at("refs/pr/1")
    assert files is not None
    entries = yaml.safe_load(files[1][".eval_results/mini-text2kg.yaml"])
    assert entries[0]["dataset"]["id"] == "kbbench/mini-text2kg" and entries[0]["dataset"]["task_id"] == "f1"
    assert 0 < entries[0]["value"] < 1 and "95% interval" in entries[0]["notes"]


def test_every_module_loads_from_its_space_and_computes(client: Client, hub: LocalHub) -> None:
    from kbbench_hf.hub.metric_modules import metric_modules

    names = list(metric_modules())
    client(
        "from kbbench_hf.cli.verbs import kbbench\n"
        f"for name in {names}:\n"
        "    kbbench.main(['publish', name, '--yes'], standalone_mode=False)"
    )
    for name in names:
        files = hub.repos["space", f"kbbench/{name}"].commits[-1][1]
        assert {f"{name}.py", "README.md", "app.py", "requirements.txt", WHEEL} <= set(files)
        assert hashlib.sha256(files[WHEEL]).hexdigest() in files["requirements.txt"].decode()
        assert b"sdk: gradio" in files["README.md"] and b"sdk_version: 6" in files["README.md"]
    *printed, mrr = client(
        f"{EVALUATE}for name in {names}:\n"
        "    loaded = evaluate.load(f'kbbench/{name}')\n"
        "    print(name, type(loaded).__mro__[1].__name__, bool(loaded.description))\n"
        "metric = evaluate.load('kbbench/ranking')\n"
        "print(metric.compute(predictions=[['a', 'b']], references=[['b']], ks=(1, 2))['mrr'])"
    ).splitlines()
    assert (printed, mrr) == ([f"{name} Metric True" for name in names], "0.5")


def test_the_leaderboards_space_comes_with_its_wheel_its_results_and_what_it_needs_to_know(
    client: Client, hub: LocalHub
) -> None:
    printed = publish(client, "leaderboard", "--namespace", "boards")
    space, results = hub.repos["space", "boards/leaderboard"], hub.repos["dataset", "boards/results"]
    files = space.commits[-1][1]
    assert set(files) == {"README.md", "app.py", "requirements.txt", WHEEL}
    front = yaml.safe_load(files["README.md"].split(b"---")[1])
    assert front["hf_oauth"] is True and tuple(map(int, front["sdk_version"].split("."))) >= (6, 20)
    assert front["python_version"] == "3.12", "the Hub's own choice is older than what the package needs"
    address = f"{hub.url}/spaces/boards/leaderboard/resolve/main/{WHEEL}"
    sha256 = hashlib.sha256(files[WHEEL]).hexdigest()
    assert files["requirements.txt"].decode() == f"kbbench-hf[space] @ {address}#sha256={sha256}\n"
    assert space.variables == {"KBBENCH_RESULTS": "boards/results"} and "secret HF_TOKEN" in printed
    assert yaml.safe_load(results.commits[-1][1]["README.md"].split(b"---")[1])["viewer"] is False
    assert f"v{VERSION}" in space.refs and f"v{VERSION}" in results.refs
    results.commit("main", {**results.commits[-1][1], "submissions/ab/x/record.json": b"{}"})
    again = publish(client, "leaderboard", "--namespace", "boards")
    assert again.count("Nothing to send") == 2 and "HF_TOKEN" not in again
    assert "submissions/ab/x/record.json" in results.commits[-1][1], "a publication took a submission away"


def test_a_space_may_install_the_release_instead(client: Client, hub: LocalHub) -> None:
    publish(client, "leaderboard", "--namespace", "released", "--released")
    files = hub.repos["space", "released/leaderboard"].commits[-1][1]
    assert set(files) == {"README.md", "app.py", "requirements.txt"}
    assert files["requirements.txt"] == f"kbbench-hf[space]=={VERSION}\n".encode()


def test_what_is_kept_from_models_is_published_in_private_only(client: Client, hub: LocalHub, tmp_path: Path) -> None:
    make = (
        "from pathlib import Path; from kbbench_hf.benchmarks import shipped_dataset\n"
        "from kbbench_hf.files.datasets import copy_dataset\n"
        "made = copy_dataset(shipped_dataset('mini-text2kg'), Path('kbbench/mini-text2kg')).path / 'README.md'\n"
        "made.write_text(made.read_text().replace('---\\n', '---\\nprivate: true\\n', 1))\n"
    )
    client(make)
    client(KBBENCH.format(["publish", "mini-text2kg", "--namespace", "own", "--yes"]), expect=1)
    assert ("dataset", "own/mini-text2kg") not in hub.repos
    publish(client, "mini-text2kg", "--namespace", "own", "--private")
    assert hub.repos["dataset", "own/mini-text2kg"].private
    hub.repos["dataset", "own/mini-text2kg"].private = False
    client(KBBENCH.format(["publish", "mini-text2kg", "--namespace", "own", "--private", "--yes"]), expect=1)


@pytest.mark.usefixtures("published")
def test_a_knowledge_base_is_published_with_its_questions(client: Client) -> None:
    printed = client(
        "from datasets import get_dataset_config_names, load_dataset\n"
        "for config in get_dataset_config_names('kbbench/mini-stark'):\n"
        "    loaded = load_dataset('kbbench/mini-stark', config)\n"
        "    streamed = load_dataset('kbbench/mini-stark', config, streaming=True)\n"
        "    print(config, *(len(rows) for rows in loaded.values()), *(list(each) == list(loaded[split])\n"
        "        for split, each in streamed.items()))"
    )
    assert {line.split()[0] for line in printed.splitlines()} == {"queries", "nodes", "edges", "schema"}
    assert all(line.endswith("True") for line in printed.splitlines())


def test_a_publication_that_broke_off_is_finished_by_the_same_command(client: Client, hub: LocalHub) -> None:
    faults = ["409", "429", "500", "500-after-commit", "timeout"]
    publish_all = (
        "import contextlib, io\nfrom kbbench_hf.cli.verbs import kbbench\nfrom kbbench_hf.errors import KBBenchError\n"
        f"for fault in {faults}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as printed:\n"
        "        try:\n"
        "            code = kbbench.main(['publish', 'mini-text2kg', '--namespace', f'broke-{fault}', '--yes'],\n"
        "                standalone_mode=False)\n"
        "        except KBBenchError:\n"
        "            code = 1\n"
        "    print(fault, code or 0, 'Nothing to send' in printed.getvalue())"
    )

    def fault(method: str, path: str) -> str | None:
        return next((each for each in faults if "/commit/" in path and f"/broke-{each}/" in path), None)

    hub.fault = fault
    try:
        assert client(publish_all).splitlines() == [f"{fault} 1 False" for fault in faults]
    finally:
        hub.fault = lambda method, path: None
    assert client(publish_all).splitlines() == [f"{fault} 0 {fault == '500-after-commit'}" for fault in faults]
    assert all("manifest.json" in hub.repos["dataset", f"broke-{each}/mini-text2kg"].commits[-1][1] for each in faults)
    assert client(publish_all).splitlines() == [f"{fault} 0 True" for fault in faults]

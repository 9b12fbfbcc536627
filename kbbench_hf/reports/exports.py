"""Exports: the Hub's `eval.yaml` and model results, TREC and ranx run files; repositories to publish on the Hub.

`kbbench export`, `publish` and `build` use it. Formats are those of other programs, with their sources beside them. A
private dataset is only in private repositories, and a dataset whose audit fails in none.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from kbbench_hf.benchmarks import benchmark, benchmark_names, find_dataset, importable_names
from kbbench_hf.benchmarks.audits import is_released, read_card
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.examples import question_column
from kbbench_hf.errors import DataError, UsageError, unknown_name
from kbbench_hf.files.datasets import NAMESPACE
from kbbench_hf.hub.metric_modules import DISTRIBUTION, metric_modules, own_wheel, space_files
from kbbench_hf.hub.publish import Publication
from kbbench_hf.scoring.result import PlainResult

INSTRUCTIONS = {
    "triples": "Write the facts of the text as triples, one a line: subject | relation | object.\n\n{prompt}",
    "answers": "Answer with names or values only, separated by semicolons.\n\n{prompt}",
}
"""Field of a parsed answer -> prompt template of inspect_ai's `eval.yaml`, which has no place for the package's own."""


# the tasks of `eval.yaml` run on the Hub with its own prompts and metrics
NOT_OURS = "Scores are those of kbbench-hf; the tasks of this file have neither its prompts nor its metrics."


def hub_tasks(bench: Benchmark) -> dict[str, str]:
    """Return config -> id of its task on the Hub: the first config of each testbed, or all where there is none.

    Configs with another main metric than the benchmark's have none: no framework of the Hub measures refusals.

    >>> list(hub_tasks(benchmark("mini-ska")))
    ['noise_kg_1k', 'order_kg_prefix', 'hardness_kg_text_hard', 'noise_kg_4k']
    """
    known, metric = bench.data.configs, bench.headline_metrics(bench.metrics)[0]
    testbeds = ([each for each in of.configs(None) if each in known][:1] for of in bench.asking.testbeds.values())
    configs = [*dict.fromkeys(chain.from_iterable(testbeds))] or known
    named = {config: metric if config == known[0] else f"{config}.{metric}" for config in configs}
    return {config: name for config, name in named.items() if metric in bench.metrics_of(config)}


def eval_yaml(dataset: str) -> str:
    """Return the `eval.yaml` that makes a built dataset a benchmark on the Hub; empty if it has no headline config.

    The Hub lists such a leaderboard only for datasets it has allowed, and for frameworks it knows: mteb for retrieval,
    inspect_ai for the others. Source: huggingface/hub-docs, docs/hub/eval-results.md; inspect_ai 0.3.285, `HFTask`.
    """
    import yaml

    bench = benchmark(dataset)
    split, retrieval, built = bench.data.default_split, not bench.asking.prompts, find_dataset(dataset).configs()
    tasks = [
        {"id": task, **({"config": config} if retrieval else _reader_fields(bench, config, split)), "split": split}
        for config, task in hub_tasks(bench).items()
        if config in built
    ]
    if not tasks:
        return ""
    facts = {"name": bench.title, "description": f"{bench.title}. {NOT_OURS}"}
    framework = "mteb" if retrieval else "inspect-ai"
    return str(yaml.safe_dump({**facts, "evaluation_framework": framework, "tasks": tasks}, sort_keys=False))


def _reader_fields(bench: Benchmark, config: str, split: str) -> dict[str, object]:
    """Return the fields that inspect_ai needs to run a task; its scorers are a fixed list.

    The format has no place for contexts that are assembled from several tables: the questions alone are read, from the
    config that holds them.
    """
    kind, folder = bench.scoring.answer, find_dataset(bench.dataset)
    target = kind.gold or kind.field

    def columns(name: str) -> Sequence[str]:
        return folder.table(name, split).column_names if split in folder.configs()[name] else ()

    own = [config, *(each for each in folder.configs() if each.partition("_")[2] in config)]
    found = [each for each in own if target in columns(each)]
    best = config if config in found else max(found, key=len)
    template = INSTRUCTIONS.get(kind.field, "{prompt}")
    return {
        "config": best,
        "field_spec": {"input": question_column(dict.fromkeys(columns(best))), "target": target},
        "solvers": [{"name": "prompt_template", "args": {"template": template}}, {"name": "generate"}],
        "scorers": [{"name": "f1"}],
    }


def eval_results_yaml(result: PlainResult, date: str, source_url: str | None = None) -> str:
    """Return a `result.json` as the YAML of `.eval_results/<dataset>.yaml`: the main metric, the others in its notes.

    The date is the day of the evaluation, ISO 8601; at the source's address the run can be looked at.

    Raises:
        UsageError: the main metric has no score, or the config has no task on the Hub.
    """
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    bench = benchmark(result["benchmark"])
    tasks = hub_tasks(bench)
    if result["config"] not in tasks:
        expected = f"expected one of {', '.join(tasks)}. Use --as eee."
        raise UsageError(f"{result['config']} of {bench.dataset} has no task on the Hub; {expected}")
    metric, *others = bench.headline_metrics(bench.metrics_of(result["config"]))
    score = result["scores"][metric]
    if score["value"] is None:
        raise UsageError(f"The result has no {metric}; expected a score. Score the run first.")
    low, high = score["ci95"]
    spread = "" if low is None or high is None else f"95% interval {low:.4f} to {high:.4f}; "
    named = ((other, result["scores"][other]["value"]) for other in others)
    rest = "".join(f"{other} {value:.4f}, " for other, value in named if value is not None)
    entry = EvalResultEntry(
        dataset_id=f"{NAMESPACE}/{bench.dataset}",
        task_id=tasks[result["config"]],
        value=score["value"],
        dataset_revision=result["dataset_revision"],
        date=date,
        source_url=source_url,
        source_name="kbbench-hf" if source_url else None,
        notes=f"{spread}{rest}mode {result['mode']}, split {result['split']}, n {score['n_scored']}, "
        f"predictions sha256 {result['predictions_sha256']}",
    )
    return str(yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False))


Id = str | int
Lists = Mapping[Id, Sequence[Id]]
"""Query -> candidates."""
Grades = Mapping[Id, Mapping[Id, int]]
"""Query -> gold candidate -> its grade of relevance."""


def trec_files(rankings: Lists, gold: Grades, tag: str) -> dict[str, str]:
    r"""Return `run.trec` (`query Q0 candidate rank score tag`) and `qrels.trec` (`query 0 candidate relevance`).

    A query without candidates has no line in a run; `trec_eval -c` counts it as 0 all the same.

    Raises:
        DataError: an id is empty or holds white space, which separates the columns.

    >>> trec_files({7: [3, 9]}, {7: {9: 1}}, "bm25")["run.trec"]
    '7 Q0 3 1 2 bm25\n7 Q0 9 2 1 bm25\n'
    """
    names = {each for lists in (rankings, gold) for query, ids in lists.items() for each in (query, *ids)}
    for name in names:
        if str(name).split() != [str(name)]:
            message = f"The id {name!r} cannot be written to a TREC file: its columns end at blanks."
            raise DataError(f"{message} Use --as ranx.")
    run = [
        f"{query} Q0 {candidate} {rank} {len(ids) - rank + 1} {'-'.join(tag.split())}\n"
        for query, ids in rankings.items()
        for rank, candidate in enumerate(ids, start=1)
    ]
    qrels = [f"{query} 0 {candidate} {grade}\n" for query, of in gold.items() for candidate, grade in of.items()]
    return {"run.trec": "".join(run), "qrels.trec": "".join(qrels)}


def ranx_files(rankings: Lists, gold: Grades, tag: str) -> dict[str, str]:
    r"""Return `run.json` and `qrels.json`, query -> candidate -> score, for `Run.from_file` and `Qrels.from_file`.

    >>> ranx_files({7: [3, 9]}, {7: {9: 1}}, "bm25")["run.json"]
    '{"7": {"3": 2, "9": 1}}\n'
    """
    run = {str(query): {str(each): len(ids) - rank for rank, each in enumerate(ids)} for query, ids in rankings.items()}
    qrels = {str(query): {str(each): grade for each, grade in of.items()} for query, of in gold.items()}
    files = {"run.json": run, "qrels.json": qrels}
    return {name: json.dumps(each, ensure_ascii=False) + "\n" for name, each in files.items()}


RANKING_FILES: Mapping[str, Callable[[Lists, Grades, str], dict[str, str]]] = {"trec": trec_files, "ranx": ranx_files}
"""Name of the format -> (rankings, gold, tag) -> file name -> content."""


LEADERBOARD = "leaderboard"
RESULTS = "results"
"""The dataset of the submissions to the leaderboard."""
GRADIO_VERSION = "6.31.0"
PYTHON_VERSION = "3.12"
"""The Python of a Space; without it, it is older than the package allows."""


def evaluate_modules() -> dict[str, Path]:
    """Return name -> folder of each `evaluate` module: of plug-in benchmarks, then our own."""
    folders = (benchmark(name).showing.evaluate_module for name in importable_names())
    return {**{folder.name: folder for folder in folders if folder}, **metric_modules()}


def targets() -> list[str]:
    """Return the names of all targets of `publications`: datasets, `evaluate` modules, the leaderboard."""
    return [*benchmark_names(), *evaluate_modules(), LEADERBOARD]


def publications(target: str, namespace: str, released: bool = False, private: bool = False) -> list[Publication]:
    """Return the repositories of a target on the Hub, in the order in which they are sent.

    Args:
        target: a dataset's name, a metric's name, or `leaderboard`, which is the Space and the dataset of its results.
        namespace: the user or organization that owns them.
        released: a Space installs the package's release; else the wheel of the running package, which is sent with it.
        private: new repositories are private.

    Raises:
        UsageError: an unknown target; a dataset that was not built, is private without `private`, or whose audit fails;
            a private Space with a wheel.
    """
    target = target.removeprefix("kbbench/")
    metrics, repo_id = evaluate_modules(), f"{namespace}/{target}"
    if private and not released and (target in metrics or target == LEADERBOARD):
        raise UsageError(
            "A private Space cannot fetch its own wheel where it is built; expected a dataset, or a Space of the "
            "release. Add --released, or leave --private out."
        )
    if target in metrics:
        files = {**_metric_files(target, metrics[target]), **_installation(repo_id, released)}
        return [Publication(repo_id, "space", files, private=private)]
    if target == LEADERBOARD:
        results = f"{namespace}/{RESULTS}"
        files = {**space_files(LEADERBOARD), **_installation(repo_id, released)}
        variables = {"KBBENCH_RESULTS": results}
        return [
            Publication(results, "dataset", dict(space_files(RESULTS)), keeps_others=True, private=private),
            Publication(repo_id, "space", files, variables, secrets=("HF_TOKEN",), private=private),
        ]
    if target in benchmark_names():
        return [Publication(repo_id, "dataset", _dataset_files(target, private), private=private)]
    raise unknown_name("target", target, targets())


def _dataset_files(name: str, private: bool) -> dict[str, Path | bytes]:
    """Return the files of a dataset for the Hub, with its `eval.yaml`; hidden ones are left out.

    Raises:
        DataError: a file does not match the manifest.
        UsageError: it must not be published, see `publications`.
    """
    folder = find_dataset(name)
    folder.verify()
    if folder.is_private and not private:
        raise UsageError(
            f"The card of {folder.path} says that it must stay private; expected a private repository. Add --private."
        )
    found = {file.relative_to(folder.path): file for file in sorted(folder.path.rglob("*")) if file.is_file()}
    files = {str(name): file for name, file in found.items() if not any(part.startswith(".") for part in name.parts)}
    if "README.md" not in files:
        message = f"{folder.path} has no README.md; a dataset is not published without its card."
        raise UsageError(f"{message} Build it again.")
    if not is_released(read_card(folder)):
        raise UsageError(
            f"{folder.path} cannot be published: baselines of its audit are above their limits, and the card does not "
            f"accept them. See: kbbench audit {name}"
        )
    return {**files, **({"eval.yaml": tasks.encode()} if (tasks := eval_yaml(name)) else {})}


def _metric_files(name: str, folder: Path) -> dict[str, Path | bytes]:
    """Return the files of an `evaluate` module as a Space, with an app that computes it."""
    from huggingface_hub import SpaceCard

    files = {file.name: file for file in sorted(folder.iterdir()) if file.is_file() and file.name != "README.md"}
    card = SpaceCard.load(folder / "README.md")
    card.data["title"] = card.data.get("title") or name
    space = {"sdk": "gradio", "sdk_version": GRADIO_VERSION, "python_version": PYTHON_VERSION, "app_file": "app.py"}
    for key, value in space.items():
        card.data[key] = value
    app = f'from kbbench_hf.app.metric_page import main\n\nmain("{name}")\n'
    return {**files, "README.md": str(card).encode(), "app.py": app.encode()}


def _installation(repo_id: str, released: bool) -> dict[str, Path | bytes]:
    """Return the files with which a Space installs the package: requirements, and the wheel that they name.

    When a Space is built, only its `requirements.txt` is there: so the wheel has a URL, not a path.
    """
    if released:
        return {"requirements.txt": f"{DISTRIBUTION}[space]=={version(DISTRIBUTION)}\n".encode()}
    from huggingface_hub import constants

    wheel = own_wheel()
    line = wheel.requirement(f"{constants.ENDPOINT}/spaces/{repo_id}/resolve/main")
    return {"requirements.txt": f"{line}\n".encode(), wheel.name: wheel.content}

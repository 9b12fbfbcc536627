"""Model card of a trained retriever: how to use it, its training data, its validation scores.

Training writes it as `README.md`, and `kbbench publish` sends it. It is made of `training.json` alone, also of folders
that earlier versions trained.
"""

from collections.abc import Mapping, Sequence
from typing import Any

TRAINING = "training.json"
"""The file of a trained folder next to the model: its spec, hashes of the questions, and the course of training."""
_TRAINED = ("epochs", "batch", "accumulate", "learning_rate", "precision", "mask", "shuffle")
_OF_ENCODERS = (*_TRAINED, "train_length", "length", "towers", "dimension", "negatives", "n_negatives", "refresh")
_OF_NETWORKS = (*_TRAINED, "length", "first_stage", "candidates", "graph_size", "mode", "layers")
_OF_PLANNERS = (*(each for each in _TRAINED if each != "mask"), "held_out")
_SHOWN = {"dense": _OF_ENCODERS, "late": _OF_ENCODERS, "qagnn": _OF_NETWORKS, "fuse": (), "plan": _OF_PLANNERS}
"""Retriever -> the settings that the card lists after method, base and seed."""
_LOADED = """\
sentence-transformers loads it too: `{}("PATH-TO-THIS-FOLDER")`, then `encode_query` and `encode_document`."""
_LOADERS = {
    "dense": _LOADED.format("SentenceTransformer"),
    "late": _LOADED.format("MultiVectorEncoder"),
    "qagnn": "`network-N-layers.safetensors` is the network, the one of 0 layers its control (`@layers=0`), which sees "
    "no edges; `qagnn.json` says which encoder gives the vectors and which first stage finds.",
    "fuse": "The models that it fuses, and their weights, stand in `fusion.json`. By step: 0 has equal weights, "
    "1 has learned ones, on questions that they were not learned from.",
    "plan": "It is a causal language model of transformers, which writes plans; `plan.json` lists the shapes of paths "
    "that it was not trained on.",
}
"""Retriever -> a sentence on the files of its folder, and on other programs that load it."""
_ENCODERS = ("dense", "late")
_LIBRARY = "library_name: sentence-transformers\npipeline_tag: sentence-similarity\n"
_CARD = """\
---
{library}tags:
- kbbench
- retrieval
---

# {name}

A retriever for the knowledge base of `{benchmark}`, trained on its training questions ({method}) by
kbbench-hf {version}.

```
kbbench run {benchmark} --model {retriever}:PATH-TO-THIS-FOLDER
```

{loader}

## Validation

These questions chose what is kept, so that the figures flatter it; test questions were not looked at.
Figures have intervals at 95 %.

{figures}

{curve}{gains}

## Data

Dataset revision `{revision}`. Hashes of the questions' ids, sorted, SHA-256: {hashes}.

## Training

{settings}

{steps:,} steps, the weights are those of step {chosen:,}; {seconds:,.0f} s in {processes} process(es); {versions}.
{controls}"""


def model_card(facts: Mapping[str, Any], name: str, retriever: str) -> str:
    """Return the text of `README.md` for the content of `training.json`; `retriever` is the kind of the model."""
    settings = facts["settings"]
    controls = [] if settings["mask"] else ["Known answers of a question could be its negatives."]
    taught = "plan" if settings["method"] == "plan" else "answers"
    controls += [f"**A control**: each question was taught another one's {taught}."] if settings["shuffle"] else []
    known = ("method", "base", "seed", *_SHOWN[retriever])
    shown = [key for key in known if settings[key] is not None]
    return _CARD.format(
        name=name,
        library=_LIBRARY if retriever in _ENCODERS else "",
        retriever=retriever,
        loader=_LOADERS[retriever],
        benchmark=settings["benchmark"],
        method=settings["method"],
        version=facts["versions"].get("kbbench-hf", ""),
        figures=_validation_table(facts["validation"]),
        curve="MRR by step: " + ", ".join(f"{each['mrr']:.4f} at {each['step']:,.0f}" for each in facts["curve"]) + ".",
        gains=_gains(facts["gains"], facts["ceilings"], facts.get("exact_match"))
        + "".join(f"\n\n{warning}" for warning in facts.get("warnings", ())),
        revision=settings["dataset_revision"],
        hashes=", ".join(f"{split} `{value}`" for split, value in settings["questions"].items()),
        settings=_table(["setting", "value"], [[key, str(settings[key])] for key in shown]),
        steps=facts["steps"],
        chosen=facts["chosen_step"],
        seconds=facts["seconds"],
        processes=facts["processes"],
        versions=", ".join(f"{package} {version}" for package, version in facts["versions"].items()),
        controls="".join(f"\n{each}\n" for each in controls),
    )


def _validation_table(validation: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return a Markdown table of the metrics, a row for each part of the validation questions."""
    metrics = [*next(iter(validation.values()))]
    rows = []
    for part, scores in validation.items():
        ends = [(scores[metric]["value"], *scores[metric]["ci95"]) for metric in metrics]
        cells = [f"{value:.4f} [{low:.3f}, {high:.3f}]" for value, low, high in ends]
        rows.append([part, f"{scores[metrics[0]]['n']:,}", *cells])
    return _table(["questions", "n", *metrics], rows)


def _gains(
    gains: Sequence[Mapping[str, Any]], ceilings: Mapping[str, float] | None, exact: Mapping[str, float] | None
) -> str:
    """Return sentences on the gain over other retrievers, the share of findable answers and exact plans; or empty."""
    ends = [(gain["mrr"], *gain["ci95"], gain["over"]) for gain in gains]
    lines = [f"MRR {mrr:+.4f} [{low:+.3f}, {high:+.3f}] over {over}." for mrr, low, high, over in ends]
    if ceilings:
        shares = ", ".join(f"{share:.1%} of {split}" for split, share in ceilings.items())
        lines.append(f"Questions with an answer in their graph: {shares}. Answers elsewhere stand behind the graph.")
    if exact:
        lines.append(f"Plan exact match: {', '.join(f'{share:.1%} of {part}' for part, share in exact.items())}.")
    return "".join(f"\n\n{line}" for line in lines)


def _table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

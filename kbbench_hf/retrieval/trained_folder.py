"""Folders of trained models, local or on the Hub, with the models they depend on.

A graph network needs an encoder and a first stage, a fusion several models: names on the Hub or local folders. A
published folder contains the local ones in `models/` and refers to them there.

Retrievers read trained folders with it, `kbbench publish` collects the files of one. Names and keys of the files are a
stored format, also on the Hub.
"""

import json
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path

from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import Row, read_json
from kbbench_hf.hub.publish import Publication
from kbbench_hf.hub.repository import connection
from kbbench_hf.model_specs import hub_name, parse

NETWORK = "qagnn.json"
"""The settings of a graph network."""
FUSION = "fusion.json"
"""The models of a learned fusion, and their weights."""
PLAN = "plan.json"
"""The settings of a trained planner."""
INSIDE = "models"
"""The folder of models that were published with it."""


def trained_folder(model: str, file: str, method: str) -> Path:
    """Return the folder of a trained model, fetched from the Hub where `model` is no folder but `org/name[@revision]`.

    Raises:
        UsageError: neither is there, or it does not hold `file`.
    """
    folder = Path(model) if model and Path(model).is_dir() else _download(model, file, method)
    if not (folder / file).is_file():
        raise UsageError(f"{model} holds no {file}; expected the folder of: kbbench train --method {method}.")
    return folder


def _download(model: str, file: str, method: str) -> Path:
    from huggingface_hub import snapshot_download

    name, revision = hub_name(model)
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise UsageError(
            f"{Path(model) / file} does not exist; expected the folder of: kbbench train --method {method}, or its "
            "name on the Hub, org/name."
        )
    with connection(name):
        return Path(snapshot_download(name, revision=revision))


def publication(folder: Path, namespace: str, private: bool = False) -> Publication:
    """Return the publication of a trained folder on the Hub: a model of the folder's name.

    Raises:
        UsageError: it is not trained to its end, or a folder that it names is not here.
    """
    if not (folder / "README.md").is_file():
        raise UsageError(f"{folder} is not trained to its end; expected its card. Run the same kbbench train again.")
    return Publication(f"{namespace}/{folder.resolve().name}", "model", portable(folder), private=private)


def record(folder: Path, file: str) -> Row:
    """Return the content of `file`, with the paths of models inside the folder resolved."""
    return _rename_models(read_json(folder / file), lambda model: str(_inside(folder, model) or model))


def portable(folder: Path) -> dict[str, Path | bytes]:
    """Return the files of a trained folder to publish: path in the repository -> file or content.

    Local folders of models that it refers to are included, recursively, and referred to by their new path.

    Raises:
        UsageError: a folder that is named is not here.
    """
    files: dict[str, Path | bytes] = {
        file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()
    }
    places: dict[Path, str] = {}

    def place(model: str) -> str:
        """Return how the published folder refers to a model; a folder outside gets a place in `models/`."""
        if _inside(folder, model):
            return model
        if not Path(model).is_dir():
            if Path(model).is_absolute():
                raise UsageError(f"{folder} names the model {model}, which is not here; expected its folder.")
            return model  # a name on the Hub
        return places.setdefault(Path(model).resolve(), free(f"{INSIDE}/{Path(model).name}"))

    def free(name: str) -> str:
        taken = {*places.values(), *("/".join(path.split("/")[:2]) for path in files)}
        return next(each for each in chain([name], (f"{name}-{n}" for n in count(2))) if each not in taken)

    for file in (NETWORK, FUSION):
        if file in files:
            files[file] = (json.dumps(_rename_models(read_json(folder / file), place), indent=2) + "\n").encode()
    for local, at in places.items():
        files |= {f"{at}/{path}": content for path, content in portable(local).items()}
    return files


def _inside(folder: Path, model: str) -> Path | None:
    """Return the path of a model inside a folder; None where it is not inside."""
    here = folder / model
    return here if model.startswith(f"{INSIDE}/") and here.is_dir() else None


def _rename_models(found: Row, rename: Callable[[str], str]) -> Row:
    """Return the content of a network's or a fusion's file with its models renamed."""
    new = dict(found)
    if "encoder" in found:
        new["encoder"] = rename(found["encoder"])
        new["first_stage"] = str(parse(found["first_stage"]).renamed(rename))
    if "parts" in found:
        new["parts"] = [str(parse(part).renamed(rename)) for part in found["parts"]]
    return new

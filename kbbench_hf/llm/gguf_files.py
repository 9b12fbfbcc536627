"""GGUF model files (llama.cpp) for transformers: finder of the model file in a folder or Hub repository."""

import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.errors import UsageError

_WEIGHTS = re.compile(r"(pytorch_)?model[^/]*\.(safetensors|bin)$")
"""Weights that transformers loads without conversion: a GGUF file beside them is ignored."""
_PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$", re.IGNORECASE)


class ModelSource(NamedTuple):
    """A folder or a name on the Hub, and the GGUF file in it, if any."""

    name: str
    gguf_file: str | None = None

    @property
    def folder(self) -> Path | None:
        """The folder; None for a name on the Hub."""
        return path if (path := Path(self.name)).is_dir() else None

    @property
    def arguments(self) -> dict[str, str]:
        """Return the arguments of `from_pretrained` that tokenizer and model both need."""
        return {"gguf_file": self.gguf_file} if self.gguf_file else {}


def model_source(model: str, revision: str | None = None) -> ModelSource:
    """Return the source of a model: a GGUF file, a folder, a name on the Hub, or a file there (ORG/NAME/FILE.gguf).

    Raises:
        UsageError: the file does not exist, there are several or it is one part of several, or gguf is not installed.
    """
    path = Path(model).expanduser()
    source = ModelSource(str(path) if path.exists() else model)
    if path.is_dir():
        if files := _gguf_files(file.name for file in path.iterdir()):
            source = ModelSource(str(path), _single_file(files, model))
    elif model.lower().endswith(".gguf"):
        steps = model.split("/")
        if path.is_file():
            source = ModelSource(str(path.parent), path.name)
        elif len(steps) < 3 or not steps[0].strip(".~"):
            raise UsageError(
                f"There is no file {model!r}. Give the path of a GGUF file, or hf:ORG/NAME/FILE.gguf on the Hub."
            )
        else:
            source = ModelSource("/".join(steps[:2]), "/".join(steps[2:]))
    elif not path.exists() and "gguf" in model.lower() and (files := _hub_files(model, revision)):
        source = ModelSource(model, _single_file(files, model))
    if source.gguf_file is not None:
        if part := _PART.search(source.gguf_file):
            raise UsageError(
                f"{source.gguf_file} is one of {int(part[1])} parts; transformers loads whole GGUF files. Join them: "
                "llama-gguf-split --merge FIRST_PART OUT.gguf"
            )
        if find_spec("gguf") is None:
            raise UsageError(f"{source.gguf_file} needs the package 'gguf', which is not installed: pip install gguf")
    return source


def _single_file(files: Sequence[str], model: str) -> str:
    if len(files) > 1 and not all(map(_PART.search, files)):
        raise UsageError(
            f"{model} holds {len(files)} GGUF files ({', '.join(files[:8])}); expected one. Name it: "
            f"hf:{model.rstrip('/')}/{files[0]}"
        )
    return files[0]


def _hub_files(name: str, revision: str | None) -> list[str]:
    """Return the GGUF files of a repository; none where it cannot be listed."""
    from huggingface_hub import HfApi

    try:
        return _gguf_files(HfApi().list_repo_files(name, revision=revision))
    except Exception:  # offline, no such name: loading says so, and what to do
        return []


def _gguf_files(names: Iterable[str]) -> list[str]:
    """Return the GGUF models among these files; none beside weights that need no conversion."""
    files = list(names)
    if any(map(_WEIGHTS.match, files)):
        return []
    return sorted(each for each in files if each.lower().endswith(".gguf") and not each.startswith("mmproj"))

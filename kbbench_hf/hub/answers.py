"""Reader of predictions in a dataset on the Hub (`datasets.load_dataset`)."""

from collections.abc import Sequence

from kbbench_hf.errors import UsageError
from kbbench_hf.files.rows import ParsedFile, numbered
from kbbench_hf.hub.ids import DatasetId


def answers_on_hub(dataset: DatasetId) -> ParsedFile:
    """Return the rows of a dataset on the Hub; of several configs or splits, one must be named.

    Raises:
        UsageError: it cannot be downloaded, or the config or split is ambiguous.
    """
    from datasets import get_dataset_config_names, get_dataset_split_names, load_dataset
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    name, revision, config, split = dataset
    try:
        config = config or _single(name, "config", get_dataset_config_names(name, revision=revision), "{}/SPLIT")
        split = split or _single(name, "split", get_dataset_split_names(name, config, revision=revision), "{}")
        rows = load_dataset(name, config, split=split, revision=revision)
    except (HfHubHTTPError, OfflineModeIsEnabled, OSError, ValueError) as error:
        raise UsageError(
            f"{name} is not a file or folder here, and could not be downloaded as a dataset from the Hub "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no reason'}). "
            "Check the path; or the dataset's id, the network, and HF_HUB_OFFLINE."
        ) from error
    text = f"the Hub's dataset {name}, config {config}, split {split}"
    return ParsedFile(text, numbered(rows), columns=list(rows.column_names))


def _single(name: str, kind: str, names: Sequence[str], form: str) -> str:
    if len(names) == 1:
        return names[0]
    example = f"{name}:{form.format(names[0])}"
    raise UsageError(f"{name} has the {kind}s {', '.join(names)}; expected one to be named. Name it: {example}")

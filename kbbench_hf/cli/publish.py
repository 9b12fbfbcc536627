"""`kbbench publish`: publish to the Hub after printing the changes."""

import sys
from pathlib import Path

import click

from kbbench_hf.cli.options import Name, flag, option
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import NAMESPACE
from kbbench_hf.hub.publish import Publication, difference, publish
from kbbench_hf.hub.repository import connection
from kbbench_hf.reports.exports import publications, targets
from kbbench_hf.reports.model_card import TRAINING
from kbbench_hf.retrieval.trained_folder import publication


@click.command()
@click.argument("target", type=Name(lambda *_: targets()))
@option("--namespace", "User or organization on the Hub.", default=NAMESPACE)
@flag("--private", "Make new repositories private.")
@flag("--released", "Let a Space install the released package instead of the wheel of this one.")
@flag("--dry-run", "Print the changes and send nothing.")
@flag("--yes", "Send without confirmation.")
def command(target: str, namespace: str, private: bool, released: bool, dry_run: bool, yes: bool) -> None:
    """Publish TARGET on the Hub: a dataset, a metric, the folder of a trained retriever, or 'leaderboard'.

    One commit sends only the changed files and is tagged with the version of this package.
    A metric and the leaderboard become Spaces, which install a wheel of this package.
    'leaderboard' also publishes the dataset of its results.

    Example: kbbench publish mini-text2kg --namespace my-org --dry-run
    """
    if (Path(target) / TRAINING).is_file():
        _publish(publication(Path(target), namespace, private), dry_run, yes)
        return
    for wanted in publications(target, namespace, released, private):
        _publish(wanted, dry_run, yes)


def _publish(wanted: Publication, dry_run: bool, yes: bool) -> None:
    """Print the changes of a repository and, unless `dry_run`, send them; without changes, only the tag is set."""
    from huggingface_hub import HfApi

    api = HfApi()
    with connection(wanted.repo_id):
        change = difference(wanted, api)
    click.echo(f"{wanted.repo_type} {wanted.repo_id} at {change.head or 'nothing yet'}")
    for line in change.lines():
        click.echo(f"  {line}")
    if dry_run or (change and not yes and not _confirm()):
        return
    with connection(wanted.repo_id):
        revision = publish(wanted, change, api)
    click.echo(f"{'Published' if change else 'Nothing to send'}; pin it with revision={revision!r}.")
    for secret in wanted.secrets if change.head is None else ():
        click.echo(f"Add the secret {secret}, a token that may write to its dataset: {wanted.url}/settings")


def _confirm() -> bool:
    """Return whether the user confirms; raise UsageError where standard input is closed."""
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError("Standard input is closed, so there is no confirmation, and nothing was sent. To send: --yes.")
    return click.confirm("Send this?")

"""`kbbench publish`: to the Hub, after showing what would change."""

import sys
from pathlib import Path

import click

from kbbench_hf.cli.names import NAME, Name
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import NAMESPACE
from kbbench_hf.hub.connection import connection
from kbbench_hf.hub.publish import Publication, difference, publish
from kbbench_hf.models.trained_folder import publication
from kbbench_hf.reports.model_card import TRAINING
from kbbench_hf.reports.publications import publications, targets


@click.command()
@click.argument("target", type=Name(lambda *_: targets()))
@click.option("--namespace", type=NAME, default=NAMESPACE, show_default=True, help="User or organisation on the Hub.")
@click.option("--private", is_flag=True, help="A repository that is made is seen by its owner only.")
@click.option("--released", is_flag=True, help="A Space installs the released package, not the wheel of this one.")
@click.option("--dry-run", is_flag=True, help="Show what would change and send nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before sending.")
def command(target: str, namespace: str, private: bool, released: bool, dry_run: bool, yes: bool) -> None:
    """Publish TARGET: a dataset, a metric, the folder of a trained retriever, or 'leaderboard'.

    Only what differs is sent, in one commit, which is tagged with the version of this package.
    A metric and the leaderboard become Spaces that install the wheel of the package that runs here, sent with them.
    With the leaderboard goes the dataset of its results.

    Example: kbbench publish mini-text2kg --namespace my-org --dry-run
    """
    if (Path(target) / TRAINING).is_file():
        _publish(publication(Path(target), namespace, private), dry_run, yes)
        return
    for wanted in publications(target, namespace, released, private):
        _publish(wanted, dry_run, yes)


def _publish(wanted: Publication, dry_run: bool, yes: bool) -> None:
    from huggingface_hub import HfApi

    api = HfApi()
    with connection(wanted.repo_id):
        change = difference(wanted, api)
    click.echo(f"{wanted.repo_type} {wanted.repo_id} at {change.head or 'nothing yet'}")
    for line in change.lines():
        click.echo(f"  {line}")
    if dry_run or (change and not yes and not _confirmed()):
        return
    with connection(wanted.repo_id):
        revision = publish(wanted, change, api)
    click.echo(f"{'Published' if change else 'Nothing to send'}; pin it with revision={revision!r}.")
    for secret in wanted.secrets if change.head is None else ():
        click.echo(f"Give it the secret {secret}, which may write to its dataset: {wanted.url}/settings")


def _confirmed() -> bool:
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError("Standard input is closed, so nobody can be asked; nothing was sent. To send it: --yes.")
    return click.confirm("Send this?")

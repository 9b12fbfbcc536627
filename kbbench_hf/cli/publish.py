"""`kbbench publish`: to the Hub, after showing what would change."""

import sys

import click

from kbbench_hf.cli.names import NAME, Name
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import NAMESPACE
from kbbench_hf.hub.connection import connection
from kbbench_hf.hub.publish import difference, publish
from kbbench_hf.reports.hub_records import publication, targets


@click.command()
@click.argument("target", type=Name(lambda *_: targets()))
@click.option("--namespace", type=NAME, default=NAMESPACE, show_default=True, help="User or organisation on the Hub.")
@click.option("--dry-run", is_flag=True, help="Show what would change and send nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before sending.")
def command(target: str, namespace: str, dry_run: bool, yes: bool) -> None:
    """Publish TARGET: a dataset, a metric, or 'leaderboard'. Only what differs is sent, in one commit.

    Example: kbbench publish mini-text2kg --namespace my-org --dry-run
    """
    from huggingface_hub import HfApi

    api = HfApi()
    wanted = publication(target, namespace)
    with connection(wanted.repo_id):
        change = difference(wanted, api)
    click.echo(f"{wanted.repo_type} {wanted.repo_id} at {change.head or 'nothing yet'}")
    for line in change.lines():
        click.echo(f"  {line}")
    if dry_run or (change and not yes and not _confirmed()):
        return
    if not change:
        click.echo(f"Nothing to send; pin it with revision={change.head!r}.")
        return
    with connection(wanted.repo_id):
        revision = publish(wanted, change, api)
    click.echo(f"Published; pin it with revision={revision!r}.")


def _confirmed() -> bool:
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError("Standard input is closed, so nobody can be asked; nothing was sent. To send it: --yes.")
    return click.confirm("Send this?")

"""`kbbench export-results`: a run's figures in the Hub's own format."""

from datetime import UTC, datetime
from pathlib import Path

import click

from kbbench_hf.errors import UsageError
from kbbench_hf.files.writing import write_text
from kbbench_hf.hub.publish import open_pull_request
from kbbench_hf.reports.hub_records import eval_results_yaml
from kbbench_hf.scoring.result import read_result


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True))
@click.option("--source-url", help="Where the run can be looked at.")
@click.option("--pull-request", metavar="MODEL", help="Open a pull request that adds the results to this model.")
def command(run: Path, source_url: str | None, pull_request: str | None) -> None:
    """Write .eval_results/DATASET.yaml for RUN, a run folder or a result.json.

    Example: kbbench export-results runs/my-run --pull-request my-org/my-model
    """
    file = run / "result.json" if run.is_dir() else run
    if not file.is_file():
        raise UsageError(
            f"{run} has no result.json; expected a scored run. Score it first: kbbench score ... --out {run}"
        )
    result = read_result(file)
    day = datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()
    text = eval_results_yaml(result, day, source_url)
    place = file.parent / ".eval_results" / f"{result['benchmark']}.yaml"
    place.parent.mkdir(exist_ok=True)
    write_text(place, text)
    click.echo(f"{place}")
    if pull_request:
        click.echo(open_pull_request(pull_request, result["benchmark"], text))

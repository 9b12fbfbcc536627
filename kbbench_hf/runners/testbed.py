"""Testbeds: run several configs of a benchmark one after the other, or load their finished results.

`kbbench run --testbed` uses it. Each config is an ordinary run in its own folder.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.benchmarks.base import Benchmark, Testbed
from kbbench_hf.errors import InterruptedRunError, KBBenchError, UsageError, unknown_name
from kbbench_hf.files.datasets import read_json
from kbbench_hf.runners.llm_run import prompt_task
from kbbench_hf.runners.run import FinishedRun, finished_run, load_task
from kbbench_hf.runners.run_folder import default_folder
from kbbench_hf.runners.run_options import BY_NAME, RunOptions, language_model


def testbed_configs(found: Benchmark, name: str, parts: Sequence[str] | None) -> tuple[Testbed, list[str]]:
    """Return a testbed of a benchmark, and its built configs, in the order of the testbed.

    `parts` chooses parts of the benchmark; None for all.

    Raises:
        UsageError: an unknown testbed or part, or none of its configs is built.
    """
    testbeds = found.asking.testbeds
    if name not in testbeds:
        raise unknown_name("testbed", name, testbeds)
    wanted = testbeds[name].configs(parts)
    built = find_dataset(found.dataset).configs()
    configs = [each for each in wanted if each in built]
    if not configs:
        raise UsageError(
            f"{found.dataset} has no config of the testbed {name!r} for {', '.join(parts or found.asking.parts)}; "
            f"expected one of {', '.join(wanted)}. Build it with: kbbench build {found.dataset}"
        )
    return testbeds[name], configs


def run_configs(
    found: Benchmark, configs: Sequence[str], name: str, options: RunOptions
) -> Iterator[tuple[str, FinishedRun | KBBenchError]]:
    """Run a language model on one config after the other, in a folder each; yield the config and its run.

    A config that cannot be run is yielded with its error, and the next one is run. All share one model object, so that
    weights are loaded once.

    Raises:
        InterruptedRunError: Ctrl-C.
    """
    model = language_model(name, options)
    named = cast(
        RunOptions, {option: value for option, value in options.items() if option not in BY_NAME} | {"name": name}
    )
    for config in configs:
        if out := options.get("out"):
            named["out"] = out / config
        done: FinishedRun | KBBenchError
        try:
            done = finished_run(f"{found.dataset}/{config}", model, **named)
        except InterruptedRunError:
            raise
        except KBBenchError as error:
            done = error
        yield config, done


def finished_results(
    found: Benchmark, configs: Sequence[str], name: str, options: RunOptions
) -> dict[str, dict[str, Any]]:
    """Return config -> stored result of the run with these settings; nothing is run.

    Raises:
        UsageError: a config has no result yet; the message has the command that runs it.
    """
    results = {}
    for config in configs:
        task = load_task(found.dataset, config, options)
        settings = prompt_task(task, **options).settings_of(name, options)
        out = options.get("out")
        file = (out / config if out else default_folder(task.task_key, name, settings)) / "result.json"
        if not file.is_file():
            raise UsageError(
                f"{file} does not exist: this testbed sorts finished runs and sends nothing. "
                f"First: kbbench run {found.dataset}/{config} --model {name}, with the same options. "
                "For finished runs with another prompt, add --prompt NAME."
            )
        results[config] = read_json(file)
    return results

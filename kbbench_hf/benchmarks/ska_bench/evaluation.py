"""The paper's evaluation of several systems: Tables 3, 4, 5 and 7 and Figures 5 to 9 of arXiv 2507.17178, as data.

Beyond the paper: intervals, the answerable control beside rejection, depths, and what a budget or subset lacks.
Tables 1, 2 and 6 and Figure 4 describe the dataset alone; they are in `statistics`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kbbench_hf.benchmarks.base import (
    Figure,
    Figures,
    FigureTable,
    Panel,
    Panels,
    Point,
    ScoredConfig,
    Section,
    Shown,
)
from kbbench_hf.benchmarks.published import read_published
from kbbench_hf.benchmarks.ska_bench.configs import BUCKETS, PAPER_BUDGETS, STANDARD, Config, configs
from kbbench_hf.benchmarks.ska_bench.statistics import dataset_section, fill_notes
from kbbench_hf.benchmarks.ska_bench.testbeds import (
    TITLES,
    bucket_panels,
    depth_panels,
    noise_panels,
    order_panels,
    rejection_panels,
)
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.robustness import (
    Column,
    mean_interval,
    population_std,
    rank_correlation,
    resampled_means,
    std_interval,
)

Systems = Mapping[str, Mapping[str, ScoredConfig]]
"""System -> config -> its results."""
F1 = "answer_f1"
AVERAGE = "Average"


def evaluation(systems: Systems, folder: DatasetFolder | None = None) -> list[Section]:
    """Return the tables and figures of the paper, a section for each testbed of which some system has results.

    Without the dataset's folder, those that describe the data are left out.
    """
    sections = [] if folder is None else [dataset_section(folder)]
    made = (_noise(systems, folder), _order(systems), _integration(systems), _rejection(systems), _hardness(systems),
            _depth(systems))  # fmt: skip
    return sections + [section for section in made if any(table.rows for table in section.tables)]


def published_evaluation() -> list[Section]:
    """Return the same of the eight models that the paper evaluates, on its own data, without intervals."""
    ...

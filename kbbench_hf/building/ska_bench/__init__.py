"""Construction of ska-open, ska-bench and the private split.

The steps, with their modules:

1. Sources: public files become a source folder (`public_files`, `source_files`).
2. Instances of each subset (`sources`): `metaqa` (kg), `table` from `wikitablequestions` and `tatqa`,
   `hybridqa_graph` and `tekgen` (kg_text), `table_text`. `official` reads the authors' own files.
3. Evidence: answer programs (`programs`, `graph_programs`, `program_induction`) prove that the positive units are
   sufficient, necessary and unique (`evidence`, `hybridqa_evidence`).
4. Noise, rejection twins (`emptied_rows`, `cell_inference`) and testbeds (`noise`, `rejection_twins`, `testbeds`,
   ordered by `unit_orders`).
5. Audit and reviews of the built dataset (`audit`).
6. The dataset with its card (`dataset`), and the private split with invented names (`private`).

`kbbench build`, `audit` and `review` call `dataset` and `audit`; nothing else of this package is used elsewhere but by
`dataset_scripts/` and tests. What a revision builds stays the same byte for byte, because published scores rest on it.
A change of questions, units or orders needs a new entry of `benchmarks.ska_bench.testbeds.REVISIONS`, and code that
earlier revisions do not run, as `if revision > 1` does today.
"""

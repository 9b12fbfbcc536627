"""Semi-structured knowledge base: typed nodes with text, and typed, directed edges; tables, store, documents.

It has two forms with the same content.

**Tables**, the form that is published (`data/<config>/full.parquet` of a dataset folder) and that users bring, as
Parquet or csv.

`nodes`, one row per node:

==========  ================  ==========================================================================================
`id`        int64 or string   unique, never null; int64 0, 1, 2 ... in row order where a release numbers its nodes
`type`      string            never null or empty
`name`      string            "" where the source has none
`text`      string            the node's own prose; "" where it has none or where all of it is in `details`
`details`   string            optional column: a JSON object, or null; see below
==========  ================  ==========================================================================================

`edges`, one row per directed edge as released, in the released order, parallel edges included: `head` and `tail` (ids
of `nodes`) and `relation` (string). Both tables keep any further column they come with.

`schema`, optional in what users bring (types and relations are then numbered in alphabetical order):

=============  =========================================================================================================
`kind`         "node_type", "relation" or "tuple"
`id`           int64: the number of the node type or relation in the source; of the relation, for a tuple
`name`         string: the node type, the relation; of the relation, for a tuple
`head_type`    string, for a tuple; else null
`tail_type`    string, for a tuple; else null
`n`            int64: nodes of the type, edges of the relation or of the tuple
=============  =========================================================================================================

The numbers matter: a release's documents list relations and node types in the order of its ids. `tables.schema_table`
makes this table.

`details` of a released node is its record (`node_info[i]`), whole and with its keys in their order, as
`json.dumps(record, ensure_ascii=False)` writes it: a float NaN stays `NaN`, because the official documents print it as
"nan"; the keys that `name` and `type` repeat may be left out. `name` is the record's `name` (Prime), `title` or
`DisplayName` (MAG), `title`, `brand_name`, `category_name` or `color_name` (Amazon). A name that is "-1" or "nan" is
kept, except where the authors' code treats it as missing: "nan" in Prime, "-1" as a `DisplayName`.

**A store**, made from the tables once and opened in milliseconds: the tables as uncompressed Arrow and the typed
adjacency in both directions as `.npy`, all memory-mapped. `KnowledgeBase.open` of a dataset folder makes its store on
first use, in `<folder>/.knowledge_base/<revision>/`; where that cannot be, as in a dataset that a package carries, in
`~/.cache/kbbench-hf/knowledge_base/` (`$XDG_CACHE_HOME`).
"""

from kbbench_hf.knowledge_base.graph import Graph as Graph
from kbbench_hf.knowledge_base.store import KnowledgeBase as KnowledgeBase

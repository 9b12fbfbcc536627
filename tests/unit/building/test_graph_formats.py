"""Graphs of other tools: names, types and directions are right, and what could not be taken is counted and named."""

import gzip
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbbench_hf.benchmarks import benchmark, find_dataset
from kbbench_hf.building.graph_formats import collector, read_graph
from kbbench_hf.building.own_kb import build_own_knowledge_base
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import DatasetFolder

NT = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
KEYS = (
    '<key id="d0" for="node" attr.name="entity_type" attr.type="string"/>'
    '<key id="d1" for="node" attr.name="description" attr.type="string"/>'
    '<key id="d2" for="edge" attr.name="keywords" attr.type="string"/>'
)
GRAPHML = f'<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{KEYS}'

CASES = {
    "neo4j: the movies of the manual, ids that meet in two spaces, quotes, CRLF": (
        {
            "m.csv": 'movieId:ID(Movie),title,year:int,:LABEL\r\n1,"The ""Matrix"", again",1999,Movie;Sequel\r\n'
            "2,Ölfilm,n/a,\r\n",
            "p.csv": "personId:ID(Person),name,born:int,tags:string[],:LABEL\n1,Keanu,1964,a;b,Actor\n",
            "r.csv": ":START_ID(Person),role,:END_ID(Movie),:TYPE\n1,Neo,1,ACTED_IN\n1,,2,\n",
        },
        {'The "Matrix", again': "Movie", "Ölfilm": "node", "Keanu": "Actor"},
        {("Keanu", "ACTED_IN", 'The "Matrix", again'), ("Keanu", "related to", "Ölfilm")},
        ["Types of columns that do not fit, whose values are text (:int): 1 (year: "],
    ),
    "neo4j: a header in its own file, semicolons": (
        {
            "people-header.csv": "id:ID;name;:IGNORE;:LABEL\n",
            "people-1.csv": "1;Ada;x;Person\n2;Bo;y;Person\n1;Al;y;Person\n",
            "people-2.csv": "3;Cy;z;Person\n",
            "knows.csv": ":START_ID;:END_ID;:TYPE;since:int\n3;1;KNOWS;1990\n",
        },
        {"Ada": "Person", "Bo": "Person", "Cy": "Person"},
        {("Cy", "KNOWS", "Ada")},
        ["Nodes that repeat the id of an earlier one: 1 (1)."],
    ),
    "neo4j: nodes of which only the ids are known, one file with its header and one without": (
        {
            "town.csv": "townId:ID(Town)\r\n1\r\n2\r\n",
            "ship-header.csv": ":ID(Ship)\n",
            "ship-1.csv": '"Petrel, of Ayr"\nSkua\n\n',
            "ship-notes.txt": "Sent by the harbor office.\n",
            "r.csv": ":START_ID(Ship),:END_ID(Town),:TYPE\nSkua,2,AT\n",
        },
        {"1": "node", "2": "node", "Petrel, of Ayr": "node", "Skua": "node"},
        {("Skua", "AT", "2")},
        ["Files of no known format: 1 (ship-notes.txt)."],
    ),
    "apoc csv: one file, edges first": (
        {
            "all.csv": '"_id","_labels","name","title","tags","_start","_end","_type","since"\n'
            ',,,,,"0","1","LIKES","1990"\n"0",":User:Admin","Ada","","[""a"",""b""]",,,,\n'
            '"1",":Book","","On Ö","",,,,\n'
        },
        {"Ada": "User", "On Ö": "Book"},
        {("Ada", "LIKES", "On Ö")},
        [],
    ),
    "apoc json lines, without labels": (
        {
            "all.json": '{"id":"9","type":"relationship","label":"KNOWS","properties":{"since":1993},'
            '"start":{"id":"0","labels":["User"]},"end":{"id":"1","labels":[]}}\n'
            '{"type":"node","id":"0","labels":["User","Admin"],"properties":{"name":"Ada","born":"2015"}}\n'
            '{"type":"node","id":"1","properties":{"age":12}}\n'
        },
        {"Ada": "User", "1": "node"},
        {("Ada", "KNOWS", "1")},
        [],
    ),
    "apoc json, one object": (
        {
            "all.json": '{"nodes": [{"type": "node", "id": "0", "labels": ["A"], "properties": {"name": "x"}}],\n'
            ' "rels": [{"id": "0", "type": "relationship", "label": "R", "start": {"id": "0"}, "end": {"id": "0"}}]}'
        },
        {"x": "A"},
        {("x", "R", "x")},
        [],
    ),
    "neo4j: blanks around cells, as its importer trims them": (
        {
            "n.csv": ":ID, name, age:int, :LABEL\n1, Ada, 36, Person\n 2 , Bo, 40, Person\n",
            "e.csv": ":START_ID, :END_ID, :TYPE\n1, 2, KNOWS\n",
        },
        {"Ada": "Person", "Bo": "Person"},
        {("Ada", "KNOWS", "Bo")},
        [],
    ),
    "apoc json of relationships, whose nodes are in them": (
        {
            "all.json": '{"id":"0","type":"relationship","label":"KNOWS","start":{"id":"0","labels":["User"],'
            '"properties":{"name":"Ada"}},"end":{"id":"1","labels":["Book"],"properties":{"name":"On Ö"}}}\n'
            '{"id":"1","type":"relationship","label":"LIKES","start":{"id":"1","labels":["Book"]},"end":{"id":"2"}}\n'
            '{"type":"node","id":"2","labels":["User"],"properties":{"name":"Bo"}}\n'
        },
        {"Ada": "User", "On Ö": "Book", "Bo": "User"},
        {("Ada", "KNOWS", "On Ö"), ("On Ö", "LIKES", "Bo")},
        [],
    ),
    "primekg without indices: one id in two types": (
        {
            "kg.csv": "relation,display_relation,x_id,x_type,x_name,x_source,y_id,y_type,y_name,y_source\n"
            'a_b,is,1,gene,"G, one",S,1,disease,D,M\nb_a,of,1,disease,D,M,1,gene,"G, one",S\n'
        },
        {"G, one": "gene", "D": "disease"},
        {("G, one", "a_b", "D"), ("D", "b_a", "G, one")},
        [],
    ),
    "primekg as nodes and edges": (
        {
            "nodes.csv": "node_index,node_id,node_type,node_name,node_source\n0,7,gene,G,N\n1,7,drug,A,D\n",
            "edges.csv": "relation,display_relation,x_index,y_index\nr,is,1,0\n",
        },
        {"G": "gene", "A": "drug"},
        {("A", "r", "G")},
        [],
    ),
    "graphrag of its first versions, one title for two entities": (
        {
            "create_final_entities.parquet": [
                {"id": "a", "name": "ROME", "type": "GEO", "description": "Old.", "text_unit_ids": ["t"]},
                {"id": "b", "name": "ROME", "type": "PERSON", "description": "A singer.", "text_unit_ids": ["t"]},
                {"id": "c", "name": "ADA", "type": None, "description": None, "text_unit_ids": None},
            ],
            "create_final_relationships.parquet": [
                {
                    "source": "ADA",
                    "target": "ROME",
                    "weight": 1.0,
                    "description": "She lives there.",
                    "text_unit_ids": ["t"],
                },
                {"source": None, "target": "ROME", "weight": 1.0, "description": "", "text_unit_ids": []},
            ],
            "communities.parquet": [{"id": "1", "human_readable_id": 1, "level": 0, "title": "C"}],
        },
        {("ROME", "GEO"), ("ROME", "PERSON"), ("ADA", "node")},
        {("ADA", "related to", "ROME")},
        [
            "Entities that share the title of an earlier one, to which the relationships lead: 1 (ROME).",
            "Edges without a head or a tail: 1 ( -> a).",
            "Tables of GraphRAG that are no entities or relationships: 1 (communities.parquet).",
        ],
    ),
    "graphml of LightRAG": (
        {
            "graph_chunk_entity_relation.graphml": f'{GRAPHML}<graph edgedefault="undirected">'
            '<edge source="Rome &amp; Co" target="Ada"><data key="d2">lives in</data></edge>'
            '<node id="Rome &amp; Co"><data key="d0">geo</data><data key="d1">Old.&lt;SEP&gt;Warm.</data></node>'
            '<node id="Ada"/></graph></graphml>',
            "kv_store_full_docs.json": '{"doc-1": {"content": "x"}}',
        },
        {"Rome & Co": "geo", "Ada": "node"},
        {("Rome & Co", "related to", "Ada")},
        ["Files of no known format: 1 (kv_store_full_docs.json)."],
    ),
    "graphml with labels, defaults, numbers, a hyperedge, edges that say their direction, CRLF": (
        {
            "g.graphml": '<graphml>\r\n<key id="l" for="edge" attr.name="label"/>'
            '<key id="n" for="node" attr.name="label"/>'
            '<key id="w" for="all" attr.name="weight" attr.type="double"><default>1.5</default></key>\r\n'
            '<graph edgedefault="directed">'
            '<node id="n0" labels=":Person:Actor"><data key="n">Zoë</data></node>'
            '<node id="n1"><data key="n">Bo</data>'
            '<graph edgedefault="directed"><node id="n1::0"/></graph></node>'
            '<edge source="n1" target="n0" directed="false"><data key="l">knows</data></edge>'
            '<edge source="n0" target="n1::0" label="OWNS"/><hyperedge id="h"/></graph></graphml>'
        },
        {"Zoë": "Person", "Bo": "node", "n1::0": "node"},
        {("Bo", "knows", "Zoë"), ("Zoë", "OWNS", "n1::0")},
        ["Hyperedges: 1 (h)."],
    ),
    "node-link of networkx, on one line": (
        {
            "g.json": json.dumps(
                {
                    "directed": True,
                    "multigraph": True,
                    "graph": {},
                    "nodes": [
                        {"id": 1, "label": "Ada", "type": ["person", "poet"]},
                        {"id": [2, 3], "label": "Town", "name": "Rome"},
                    ],
                    "edges": [
                        {"source": 1, "target": [2, 3], "key": 0, "relation": "lives in"},
                        {"source": [2, 3], "target": 1, "key": "has"},
                    ],
                }
            )
        },
        {"Ada": "person", "Rome": "Town"},
        {("Ada", "lives in", "Rome"), ("Rome", "has", "Ada")},
        [],
    ),
    "node-link with positions as ends, printed over lines": (
        {
            "g.json": json.dumps(
                {"links": [{"source": 1, "target": 0}], "nodes": [{"id": "a"}, {"id": "b"}], "directed": False},
                indent=1,
            )
        },
        {"a": "node", "b": "node"},
        {("b", "related to", "a")},
        [],
    ),
    "node-link with two lists of edges, and a file that cannot be read": (
        {
            "g.json": '{"nodes": [{"id": "a"}, {"id": "b"}], "links": [{"source": "b", "target": "a"}],'
            ' "edges": [{"source": "a", "target": "b", "interaction": "pp"}]}',
            "lance/x.bin": "\0\1",
        },
        {"a": "node", "b": "node"},
        {("b", "related to", "a"), ("a", "pp", "b")},
        ["Files that cannot be read: 1 (lance/x.bin: UTF-16 without a byte-order mark)."],
    ),
    "n-triples whose class has a text and no edge": (
        {
            "g.nt": f'<http://x.org/a> {NT} <http://x.org/T> .\n<http://x.org/T> {LABEL} "T"@en .\n'
            '<http://x.org/T> <http://www.w3.org/2000/01/rdf-schema#comment> "A type." .\n'
        },
        {"a": "T"},
        set(),
        ["Classes and properties without edges, whose texts are left out: 1 (T)."],
    ),
    "n-triples with escapes, languages, blank nodes, comments, CRLF, a bad line, a class with a label": (
        {
            "g.nt": "# a comment\r\n"
            f'<http://x.org/ada> {LABEL} "Augusta"@de .\r\n<http://x.org/ada> {LABEL} "Ada \\"L\\" '
            'Caf\\u00E9"@en-GB .\n'
            f"<http://x.org/ada> {NT} <http://x.org/Person> .\n<http://x.org/ada> {NT} <http://x.org/Q5> .\n"
            f'<http://x.org/Q5> {LABEL} "human"@en .\n'
            "_:b1 <http://x.org/knows> <http://x.org/ada> . # so\nthis is no triple\n"
            '<http://x.org/ada> <http://x.org/age> "36"^^<http://www.w3.org/2001/XMLSchema#int> .\n'
            '<http://x.org/ada> <http://www.w3.org/2000/01/rdf-schema#comment> "Wrote <notes> . \\n Long." .\n'
        },
        {'Ada "L" Café': "Person", "_:b1": "node"},
        {("_:b1", "knows", 'Ada "L" Café')},
        ["Lines that are no triple: 1 (line 8, this is no triple)."],
    ),
    "turtle, the first of several types": (
        {"g.ttl": "@prefix : <http://x.org/> .\n" + "".join(f":n{n} a :Z, :A, :M .\n" for n in range(5))},
        {f"n{n}": "Z" for n in range(5)},
        set(),
        [],
    ),
    "turtle without a prefix": (
        {"g.ttl": '<http://x.org/a> a <http://x.org/T> ;\n <http://x.org/p> "v", <http://x.org/b> .\n'},
        {"a": "T", "b": "node"},
        {("a", "p", "b")},
        [],
    ),
    "n-quads of two graphs, and blank nodes of one label in two files": (
        {
            "a.nq": "_:a <http://x.org/p> <http://x.org/b> <http://g.org/1> .\n"
            "_:a <http://x.org/p> <http://x.org/b> <http://g.org/2> .\n",
            "b.nt": "_:a <http://x.org/p> <http://x.org/b>.\n",
        },
        {"_:a": "node", "_:f2.a": "node", "b": "node"},
        {("_:a", "p", "b"), ("_:f2.a", "p", "b")},
        [],
    ),
    "kgx as JSON Lines": (
        {
            "n.jsonl": '{"id": "X:1", "category": ["biolink:Gene", "biolink:Thing"], "name": "a"}\n{"id": "X:2"}\n',
            "e.jsonl": '{"id": "e", "subject": "X:2", "predicate": "p", "object": "X:1"}\n',
        },
        {"a": "biolink:Gene", "X:2": "node"},
        {("X:2", "p", "a")},
        [],
    ),
    "turtle with a prefix, two properties of one local name, a blank node, an individual": (
        {
            "g.ttl": "@prefix a: <http://a.org/> .\n@prefix b: <http://b.org#> .\n"
            "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
            "@prefix s: <http://www.w3.org/2004/02/skos/core#> .\n"
            'a:rome a owl:NamedIndividual, a:City ; s:prefLabel "Roma", "Rom"@de, "Rome"@en ; a:in [ a a:Land ] .\n'
            "a:oslo b:in a:norway .\n"
        },
        {"Rome": "City", "_:b0": "Land", "oslo": "node", "norway": "node"},
        {("Rome", "http://a.org/in", "_:b0"), ("oslo", "http://b.org#in", "norway")},
        [],
    ),
    "json-ld": (
        {
            "g.jsonld": '{"@context": {"name": "http://schema.org/name", '
            '"knows": {"@id": "http://schema.org/knows", "@type": "@id"}},'
            ' "@graph": [{"@id": "http://x.org/1", "@type": "http://schema.org/Person", "name": "Ada",'
            ' "knows": "http://x.org/2"}]}'
        },
        {"Ada": "Person", "2": "node"},
        {("Ada", "knows", "2")},
        [],
    ),
    "json-ld, a named graph, and relative addresses": (
        {"g.json": '{"@id": "http://x.org/g", "@graph": [{"@id": "a", "http://x.org/p": {"@id": "http://x.org/b"}}]}'},
        {"a": "node", "b": "node"},
        {("a", "p", "b")},
        [],
    ),
    "rdf/xml": (
        {
            "g.xml": '<?xml version="1.0"?>\n<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
            'xmlns:f="http://xmlns.com/foaf/0.1/">'
            '<f:Person rdf:about="http://x.org/a"><f:name xml:lang="en">Ada</f:name>'
            '<f:knows rdf:resource="http://x.org/b"/></f:Person></rdf:RDF>'
        },
        {"Ada": "Person", "b": "node"},
        {("Ada", "knows", "b")},
        [],
    ),
    "kgx tables": (
        {
            "kg_nodes.tsv": "id\tcategory\tname\tdescription\nX:1\tbiolink:Gene|biolink:NamedThing\tBRCA1\tA gene.\n"
            "X:2\t\tpain\t\n\tbiolink:Gene\tlost\t\n",
            "kg_edges.tsv": "id\tsubject\tpredicate\tobject\trelation\nuuid:1\tX:1\tbiolink:causes\tX:2\tRO:1\n",
        },
        {"BRCA1": "biolink:Gene", "pain": "node"},
        {("BRCA1", "biolink:causes", "pain")},
        ["Nodes without an id: 1 ("],
    ),
    "kgx tables with quotes, which are text": (
        {
            "n.tsv": 'id\tcategory\tname\nX:1\tGene\t"5 prime\nX:2\tGene\t3"\nX:3\tGene\t"so"\n',
            "e.tsv": 'subject\tpredicate\tobject\tnote\nX:1\tp\tX:2\t"a\nX:3\tp\tX:1\tb"\n',
        },
        {'"5 prime': "Gene", '3"': "Gene", '"so"': "Gene"},
        {('"5 prime', "p", '3"'), ('"so"', "p", '"5 prime')},
        [],
    ),
    "kgx json, and edges alone": (
        {
            "kg.json": '{"nodes": [{"id": "X:1", "category": ["biolink:Gene"], "name": "BRCA1"}, {"id": "X:2"}],'
            ' "edges": [{"subject": "X:2", "predicate": "biolink:affects", "object": "X:1"}]}'
        },
        {"BRCA1": "biolink:Gene", "X:2": "node"},
        {("X:2", "biolink:affects", "BRCA1")},
        [],
    ),
    "obo: namespaces, relationships, a typedef, an obsolete term": (
        {
            "x.obo": "format-version: 1.2\ndefault-namespace: anatomy\n\n[Term]\nid: X:1\nname: hand\n"
            "is_a: X:2 ! limb part\n"
            'relationship: part_of X:3 ! arm\nsynonym: "manus" EXACT []\n\n[Term]\nid: X:2\n'
            "name: limb part\nnamespace: parts\n"
            'def: "A part \\"of\\" a limb." [X:9]\n\n[Term]\nid: X:3\nname: arm\nis_obsolete: true\n\n'
            "[Typedef]\nid: part_of\nname: part of\n\n[Instance]\nid: X:7\nname: mine\n"
        },
        {"hand": "anatomy", "limb part": "parts", "arm": "anatomy"},
        {("hand", "is_a", "limb part"), ("hand", "part_of", "arm")},
        ["Frames that are no terms, which fastobo does not read: 1 ([Instance])."],
    ),
    "llamaindex": (
        {
            "property_graph_store.json": json.dumps(
                {
                    "nodes": {
                        "Ada": {"label": "PERSON", "embedding": None, "properties": {"born": 1815}, "name": "Ada"},
                        "chunk-1": {
                            "label": "text_chunk",
                            "embedding": None,
                            "properties": {},
                            "text": "Ada wrote.",
                            "id_": "chunk-1",
                        },
                    },
                    "relations": {
                        "r": {"label": "MENTIONS", "source_id": "chunk-1", "target_id": "Ada", "properties": {}}
                    },
                    "triplets": [["chunk-1", "MENTIONS", "Ada"]],
                }
            ),
            "docstore.json": '{"docstore/data": {}}',
        },
        {"Ada": "PERSON", "chunk-1": "text_chunk"},
        {("chunk-1", "MENTIONS", "Ada")},
        ["Files of no known format: 1 (docstore.json)."],
    ),
    "llamaindex, its older store": (
        {"graph_store.json": '{"graph_dict": {"Ada": [["wrote", "notes"]], "Zoë": []}}'},
        {"Ada": "node", "notes": "node"},
        {("Ada", "wrote", "notes")},
        [],
    ),
    "ogb: one node type": (
        {
            "raw/edge.csv.gz": "0,2\n1,0\n",
            "raw/num-node-list.csv.gz": "3\n",
            "raw/num-edge-list.csv.gz": "2\n",
            "mapping/nodeidx2paperid.csv.gz": "node idx,paper id\n0,P7\n1,P8\n2,P9\n",
        },
        {"P7": "node", "P8": "node", "P9": "node"},
        {("P7", "related to", "P9"), ("P8", "related to", "P7")},
        ["Files of OGB's layout that hold no nodes, edges or names: 1 (raw/num-edge-list.csv.gz)."],
    ),
    "ogb: several node types with the same numbers": (
        {
            "raw/num-node-dict.csv": "author,paper\n2,1\n",
            "raw/relations/author___writes___paper/edge.csv": "1,0\n",
            "mapping/paper_entidx2name.csv": "ent idx,ent name\n0,On Ö\n",
            "mapping/relidx2relname.csv": "rel idx,rel name\n4,wrote\n",
            "raw/relations/author___writes___paper/edge_reltype.csv": "4\n",
        },
        {"author:0": "author", "author:1": "author", "On Ö": "paper"},
        {("author:1", "wrote", "On Ö")},
        [],
    ),
}


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            pq.write_table(pa.Table.from_pylist(content), path)
        else:
            path.write_bytes(
                gzip.compress(content.encode()) if name.endswith(".gz") else content.encode(errors="surrogateescape")
            )


def build(in_tmp, *paths, **more):
    left_out = build_own_knowledge_base("mine", None, None, None, in_tmp / "kbbench/mine", graph=paths, **more)
    return DatasetFolder(in_tmp / "kbbench/mine"), left_out


@pytest.mark.parametrize("case", CASES)
def test_a_graph_has_its_names_types_and_directions_and_counts_what_it_lacks(in_tmp, case):
    files, nodes, edges, left_out = CASES[case]
    write(in_tmp / "graph", files)
    folder, said = build(in_tmp, in_tmp / "graph")
    rows = folder.rows("nodes", "full")
    names = {row["id"]: row["name"] for row in rows}
    found = sorted((row["name"], row["type"]) for row in rows)
    assert found == sorted(nodes.items() if isinstance(nodes, dict) else nodes)
    links = [(names[row["head"]], row["relation"], names[row["tail"]]) for row in folder.rows("edges", "full")]
    assert (sorted(links), len(said)) == (sorted(edges), len(left_out))
    card = (folder.path / "README.md").read_text(encoding="utf-8")
    assert ("undirected: each is stored once" in card) == any(
        each in str(files) for each in ('edgedefault="undirected"', 'directed="false"', '"directed": false')
    )
    for sentence, expected in zip(sorted(said), sorted(left_out), strict=True):
        assert sentence.startswith(expected)
        assert f"- {sentence}" in card


WHOLE = {
    "neo4j: types of values, names that edges have themselves": (
        {
            "p.csv": "personId:ID(Person);name;born:int;height:double;alive:boolean;tags:string[];scores:int[];:LABEL\n"
            "1;Ada;1815;1.6;true;a|b;3;Person\n2;Bo;;;false;;;\n",
            "r.csv": ":START_ID(Person);:END_ID(Person);:TYPE;relation;weight:float;head:boolean\n"
            "1;2;KNOWS;x;0.5;true\n2;1;KNOWS;;;\n",
        },
        [
            [1, "Person", "Ada", "", {"born": 1815, "height": 1.6, "alive": True, "tags": ["a|b"], "scores": [3]}],
            [2, "node", "Bo", "", {"alive": False}],
        ],
        [
            {"head": 1, "relation": "KNOWS", "tail": 2, "relation_property": "x", "weight": 0.5}
            | {"head_property": True},
            {"head": 2, "relation": "KNOWS", "tail": 1, "relation_property": None, "weight": None}
            | {"head_property": None},
        ],
    ),
    "neo4j: an id of two columns, lists": (
        {"p.csv": "a:ID,b:ID,name,tags:string[],scores:int[]\n1,x,Ada,a;b,3;4\n1,y,Bo,,\n"},
        [
            ["1:x", "node", "Ada", "", {"tags": ["a", "b"], "scores": [3, 4]}],
            ["1:y", "node", "Bo", "", None],
        ],
        [],
    ),
    "apoc csv: lists, and what is none": (
        {
            "all.csv": '"_id","_labels","name","tags","_start","_end","_type","since"\n'
            '"0",":User:Admin","Ada","[""a"",""b""]",,,,\n"1",":Book","[x","",,,,\n'
            ',,"","","0","1","LIKES","1990"\n'
        },
        [
            [0, "User", "Ada", "", {"tags": ["a", "b"], "labels": ["User", "Admin"]}],
            [1, "Book", "[x", "", None],
        ],
        [{"head": 0, "relation": "LIKES", "tail": 1, "details": '{"since": "1990"}'}],
    ),
    "primekg as Parquet": (
        {
            "kg.parquet": [
                {"relation": "a_b", "display_relation": "is", "x_index": 0, "x_id": "1", "x_type": "gene"}
                | {"x_name": "G", "x_source": "S", "y_index": 5, "y_id": "7", "y_type": "drug", "y_name": "D"}
            ]
        },
        [[0, "gene", "G", "", {"id": "1", "source": "S"}], [5, "drug", "D", "", {"id": "7"}]],
        [{"head": 0, "relation": "a_b", "tail": 5, "display_relation": "is"}],
    ),
    "graphrag as JSON Lines": (
        {
            "entities.jsonl": '{"id":"a","title":"ADA","type":"PERSON","description":"Wrote.","human_readable_id":0}\n'
            '{"id":"b","title":"ROME","type":"","description":"Old.","human_readable_id":1}\n',
            "relationships.jsonl": '{"source":"ADA","target":"ROME","description":"Lives there.","weight":2.0,'
            '"human_readable_id":0}\n{"source":"ROME","target":"X","weight":1.0,"human_readable_id":1}\n',
            "more.jsonl": '{"title":"X","type":"T","description":"","text_unit_ids":[]}\n',
        },
        [
            ["a", "PERSON", "ADA", "Wrote.", {"human_readable_id": 0}],
            ["b", "node", "ROME", "Old.", {"human_readable_id": 1}],
            ["X", "T", "X", "", None],
        ],
        [
            {"head": "a", "relation": "related to", "tail": "b", "description": "Lives there.", "weight": 2.0}
            | {"human_readable_id": 0},
            {"head": "b", "relation": "related to", "tail": "X", "description": None, "weight": 1.0}
            | {"human_readable_id": 1},
        ],
    ),
    "graphml: types of values, several labels, values that are not of their type": (
        {
            "g.graphml": '<graphml><key id="n" for="node" attr.name="labels"/>'
            '<key id="b" for="node" attr.name="born" attr.type="int"/>'
            '<key id="r" for="node" attr.name="rich" attr.type="boolean"/><graph edgedefault="directed">'
            '<node id="a"><data key="n">:Person:Poet</data><data key="b">1815</data><data key="r">true</data></node>'
            '<node id="b"><data key="b">about 1800</data><data key="r">no</data></node></graph></graphml>'
        },
        [
            ["a", "Person", "a", "", {"born": 1815, "rich": True, "labels": ["Person", "Poet"]}],
            ["b", "node", "b", "", {"born": "about 1800", "rich": False}],
        ],
        [],
    ),
    "llamaindex: properties, and the text of a chunk": (
        {
            "s.json": '{"nodes": {"Ada": {"label": "PERSON", "properties": {"born": 1815}, "name": "Ada"},'
            ' "c1": {"label": "text_chunk", "properties": {"page": 3}, "text": "Ada wrote."}}, "relations":'
            ' {"r": {"label": "MENTIONS", "source_id": "c1", "target_id": "Ada", "properties": {"n": 2}}}}'
        },
        [["Ada", "PERSON", "Ada", "", {"born": 1815}], ["c1", "text_chunk", "c1", "Ada wrote.", {"page": 3}]],
        [{"head": "c1", "relation": "MENTIONS", "tail": "Ada", "details": '{"n": 2}'}],
    ),
    "n-triples: descriptions before other texts, English before no language before others": (
        {
            "g.nt": f'<http://x.org/a> {LABEL} "Ada" .\n<http://x.org/a> <http://x.org/motto> "Vivat"@la .\n'
            '<http://x.org/a> <http://x.org/age> "36"^^<http://www.w3.org/2001/XMLSchema#int> .\n'
            '<http://x.org/a> <http://x.org/motto> "Live"@en .\n<http://x.org/a> <http://x.org/motto> "Ada" .\n'
            '<http://x.org/a> <http://www.w3.org/2000/01/rdf-schema#comment> "Wrote  notes." .\n'
            f'<http://x.org/a> {LABEL} "Augusta"@fr .\n<http://x.org/b> <http://x.org/age> "40" .\n'
            '<http://x.org/b> <http://www.w3.org/2000/01/rdf-schema#comment> "Unnamed." .\n'
        },
        [
            ["http://x.org/a", "node", "Ada", "label (fr): Augusta\nWrote  notes.\nmotto (en): Live\nage: 36\n"
             "motto (la): Vivat", None],
            ["http://x.org/b", "node", "b", "Unnamed.\nage: 40", None],
        ],
        [],
    ),
    "obo: the definition before the comment, tags that occur twice": (
        {
            "x.obo": "format-version: 1.2\n\n[Term]\nid: X:2\nname: limb part\nalt_id: X:8\nalt_id: X:9\n"
            'synonym: "b" EXACT []\nsynonym: "c" EXACT []\ncomment: Seldom used.\ndef: "A part." [X:9]\n'
        },
        [["X:2", "Term", "limb part", "A part.\nSeldom used.", {"alt_id": ["X:8", "X:9"], "synonyms": ["b", "c"]}]],
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WHOLE)
def test_every_property_is_kept_in_its_place_and_type(in_tmp, case):
    files, nodes, edges = WHOLE[case]
    write(in_tmp / "graph", files)
    folder, left_out = build(in_tmp, in_tmp / "graph")
    rows = folder.rows("nodes", "full")
    found = [[row.pop(name) for name in ("id", "type", "name", "text")] for row in rows]
    assert found == [each[:4] for each in nodes]
    assert [json.loads(row.pop("details", None) or "null") for row in rows] == [each[4] for each in nodes]
    assert (folder.rows("edges", "full"), left_out) == (edges, [])


def test_rows_are_the_same_in_chunks_of_any_size(in_tmp, monkeypatch):
    nodes = [{"id": f"n{n}"} | ({"age": n} if n % 3 == 0 else {}) for n in range(7)]
    links = [{"source": f"n{n}", "target": f"n{n // 2}"} | ({"w": n} if n > 4 else {}) for n in range(7)]
    write(in_tmp, {"g.json": json.dumps({"nodes": nodes, "links": links})})
    whole = read_graph([in_tmp / "g.json"])
    monkeypatch.setattr(collector, "CHUNK", 2)
    parts = read_graph([in_tmp / "g.json"])
    assert parts.nodes["id"].num_chunks == 4 and parts.nodes["id"].to_pylist() == [each["id"] for each in nodes]
    assert [table.combine_chunks() for table in parts[:2]] == [table.combine_chunks() for table in whole[:2]]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"g.graphml": "<graphml><graph/></graphml>"}, r"GraphML.*: no node was found\. Expected some\.$"),
        (
            {"g.json": '{"nodes": [{"x": 1}], "links": []}'},
            r"no node was found\. Expected some\. Nodes without an id: 1",
        ),
        ({"g.json": '{"nodes": [], "edges": []}'}, r"no node was found\. Expected some\.$"),
        ({"g.json": '{"a": ' + "[" * 3000 + "]" * 3000 + "}"}, "nested too deeply"),
    ],
)
def test_a_graph_without_a_node_is_refused_with_what_was_left_out(in_tmp, files, message):
    write(in_tmp, files)
    with pytest.raises(DataError, match=message):
        build(in_tmp, in_tmp / next(iter(files)))


def test_descriptions_of_graphml_are_texts_and_further_relations_are_kept(in_tmp):
    graphml = '<g:graphml xmlns:g="u"><g:graph><g:node id="a"><g:desc>About a.</g:desc></g:node></g:graph></g:graphml>'
    edge = {"source": "a", "target": "a", "relation": ["p", "q"]}
    write(in_tmp, {"g.graphml": graphml, "g.json": json.dumps({"nodes": [], "links": [edge]})})
    folder, _ = build(in_tmp, in_tmp / "g.graphml", in_tmp / "g.json")
    assert folder.rows("nodes", "full")[0]["text"] == "About a."
    (row,) = folder.rows("edges", "full")
    assert (row["relation"], row["details"]) == ("p", '{"relations": ["p", "q"]}')


def test_kgx_json_keeps_what_is_no_end_and_no_predicate_as_details(in_tmp):
    edge = {"subject": "X:1", "predicate": "p", "object": "X:2", "source": "S"}
    nodes = [{"id": "X:1", "category": "Gene", "taxon": 9606}, {"id": "X:2"}]
    write(in_tmp, {"kg.json": json.dumps({"nodes": nodes, "edges": [edge]})})
    folder, _ = build(in_tmp, in_tmp / "kg.json")
    assert folder.rows("nodes", "full")[0]["details"] == '{"taxon": 9606}'
    assert folder.rows("edges", "full")[0]["details"] == '{"source": "S"}'


def test_apoc_json_may_have_ids_as_keys(in_tmp):
    nodes = {each: {"id": each, "labels": ["Town"], "properties": {"name": each}} for each in ("Ayr", "Rye")}
    ends = {"start": {"id": "Ayr"}, "end": {"id": "Rye"}}
    write(in_tmp, {"g.json": json.dumps({"nodes": nodes, "rels": {"0": {"id": "0", "label": "NEAR", **ends}}})})
    folder, _ = build(in_tmp, in_tmp / "g.json")
    assert [row["name"] for row in folder.rows("nodes", "full")] == ["Ayr", "Rye"]
    assert [(row["head"], row["relation"], row["tail"]) for row in folder.rows("edges", "full")] == [
        ("Ayr", "NEAR", "Rye")
    ]


QUERIES = "id,query\nq1,who?\nq2,what?\nq3,where?\n"


def test_judgments_have_grades_in_any_notation_and_ndcg_uses_them(in_tmp):
    """trec_eval's linear gain; grade 1 and above is gold of all other metrics."""
    write(in_tmp, {"n.csv": "id,type,name,text\n" + "".join(f"{n},t,d{n},\n" for n in range(12)), "q.csv": QUERIES})
    files = {
        "trec": "q1 0 3 3\nq1 0 4 0\nq1 0 5 1\nq2 0 7 2\nq9 0 1 1\n",
        "beir.tsv": "query-id\tcorpus-id\tscore\nq1\t3\t3\nq1\t4\t0\nq1\t5\t1\nq2\t7\t2\nq9\t1\t1\n",
        "c.csv": "qid,docid,rel\r\nq1,3,3.0\r\nq1,4,0\r\nq1,5,1\r\nq2,7,2\r\nq9,1,1\r\n",
    }
    for name, text in files.items():
        (in_tmp / name).write_text(text)
        left_out = build_own_knowledge_base(
            "mine", in_tmp / "n.csv", None, in_tmp / "q.csv", in_tmp / "kbbench/mine", qrels=in_tmp / name
        )
        assert left_out == [
            "1 of 3 queries, which have no judgment.",
            "Judgments of 1 queries that are not given: q9.",
        ]
        rows = DatasetFolder(in_tmp / "kbbench/mine").rows("queries", "test")
        assert [(row["answer_ids"], row["relevance"]) for row in rows] == [([3, 5], [3, 1]), ([7], [2])]
    found = benchmark("mine")
    examples = found.data.load(find_dataset("mine"), "queries", "test")
    for mode in ("reference", "standard"):
        scores = found.scoring.score(examples, [[5, 4, 3], [1, 7]], mode)
        assert scores.values["ndcg_at_10"] == pytest.approx(
            [(1 + 3 / 2) / (3 + 1 / np.log2(3)), 1 / np.log2(3)], abs=1e-15
        )
        assert scores.values["mrr"].tolist() == [1.0, 0.5]
        codes = [each.code for each in found.scoring.warn(found, examples, [[5, 4, 3], [1, 7]], mode)]
        assert codes[:2] == ["left_out", "graded"]


def test_a_column_of_grades_is_parallel_to_the_gold(in_tmp):
    write(in_tmp, {"n.csv": "id,type,name,text\na,t,x,\nb,t,y,\n"})
    call = ("mine", in_tmp / "n.csv", None, in_tmp / "q.csv", in_tmp / "kbbench/mine")
    (in_tmp / "q.csv").write_text('id,query,answer_ids,relevance\n1,x,a;b,2;0\n2,y,b,"[1]"\n')
    build_own_knowledge_base(*call)
    rows = DatasetFolder(in_tmp / "kbbench/mine").rows("queries", "test")
    assert [(row["answer_ids"], row["relevance"]) for row in rows] == [(["a"], [2]), (["b"], [1])]
    for cell in ("2", "2;x", "2;1;1"):
        (in_tmp / "q.csv").write_text(f"id,query,answer_ids,relevance\n1,x,a;b,{cell}\n")
        with pytest.raises(DataError, match=r"row 1: relevance .* expected an integer for each"):
            build_own_knowledge_base(*call)


def test_a_beir_folder_brings_the_questions_of_each_split(in_tmp):
    corpus = '{"_id": "d1", "title": "On Ö", "text": "a", "metadata": {}}\n{"_id": "d2", "text": "b"}\n'
    queries = '{"_id": "1", "text": "x", "metadata": {}}\n{"_id": "2", "text": "y"}\n{"_id": "3", "text": "z"}\n'
    qrels = "query-id\tcorpus-id\tscore\n"
    write(
        in_tmp / "beir",
        {
            "corpus.jsonl": corpus,
            "queries.jsonl": queries,
            "qrels/test.tsv": qrels + "1\td2\t2\n1\td1\t1\n",
            "qrels/dev.tsv": qrels + "2\td1\t1\n",
        },
    )
    folder, left_out = build(in_tmp, in_tmp / "beir")
    assert [(row["name"], row["text"]) for row in folder.rows("nodes", "full")] == [("On Ö", "a"), ("", "b")]
    assert folder.configs()["queries"] == ["validation", "test"]
    assert folder.rows("queries", "test") == [
        {"id": 1, "query": "x", "answer_ids": ["d2", "d1"], "relevance": [2, 1]},
    ]
    assert left_out == ["Queries without a judgment: 1 (3)."]


def test_the_judgments_of_a_beir_folder_may_be_parquet_or_json_lines(in_tmp):
    write(
        in_tmp / "beir",
        {
            "corpus.jsonl": '{"_id": "d1", "title": "A", "text": "a"}\n{"_id": "d2", "title": "", "text": "b"}\n',
            "queries.jsonl": '{"_id": "q1", "text": "x"}\n{"_id": "q2", "text": "y"}\n',
            "qrels/test-00000-of-00001.parquet": [
                {"query-id": "q1", "corpus-id": "d2", "score": 2},
                {"query-id": "q1", "corpus-id": "d1", "score": 0},
            ],
            "qrels/qrels_dev.jsonl": '{"query-id": "q2", "corpus-id": "d1", "score": 1}\n'
            '{"query-id": "q9", "corpus-id": "d1", "score": 1}\n',
        },
    )
    folder, left_out = build(in_tmp, in_tmp / "beir")
    rows = {split: folder.rows("queries", split) for split in folder.configs()["queries"]}
    assert rows == {
        "validation": [{"id": "q2", "query": "y", "answer_ids": ["d1"], "relevance": [1]}],
        "test": [{"id": "q1", "query": "x", "answer_ids": ["d2"], "relevance": [2]}],
    }
    assert left_out == ["Judged queries without a text: 1 (q9)."]


def test_a_split_of_a_beir_folder_may_be_in_several_files_and_be_named_after_qrels(in_tmp):
    names = {"qrels/test-00000-of-00002.parquet": ("q1", 1), "qrels/test-00001-of-00002.parquet": ("q2", 2)}
    names |= {"qrels/qrels.dev.tsv": ("q3", 1)}
    write(
        in_tmp / "beir",
        {
            "corpus.jsonl": "".join(f'{{"_id": "d{n}", "title": "", "text": "x"}}\n' for n in range(3)),
            "queries.jsonl": "".join(f'{{"_id": "q{n}", "text": "y"}}\n' for n in (1, 2, 3)),
            **{
                name: [{"query-id": query, "corpus-id": f"d{n}", "score": grade} for n in range(2)]
                if name.endswith("parquet")
                else f"query-id\tcorpus-id\tscore\n{query}\td2\t{grade}\n"
                for name, (query, grade) in names.items()
            },
        },
    )
    folder, left_out = build(in_tmp, in_tmp / "beir")
    rows = [
        (split, row["id"], row["answer_ids"])
        for split in ("validation", "test")
        for row in folder.rows("queries", split)
    ]
    assert rows == [("validation", "q3", ["d2"]), ("test", "q1", ["d0", "d1"]), ("test", "q2", ["d0", "d1"])]
    assert left_out == []


def test_the_queries_of_a_beir_folder_may_have_the_ids_of_documents(in_tmp):
    write(
        in_tmp,
        {
            "corpus.jsonl": '{"_id": "1", "text": "a"}\n{"_id": "2", "text": "b"}\n',
            "queries.jsonl": '{"_id": "1", "text": "q"}\n',
            "qrels.tsv": "query-id\tcorpus-id\tscore\n1\t2\t1\n",
        },
    )
    folder, left_out = build(in_tmp, *(in_tmp / name for name in ("qrels.tsv", "queries.jsonl", "corpus.jsonl")))
    assert [row["text"] for row in folder.rows("nodes", "full")] == ["a", "b"]
    assert (folder.rows("queries", "test")[0]["answer_ids"], left_out) == ([2], [])


def test_the_queries_of_a_beir_folder_may_have_any_name_if_they_have_no_titles(in_tmp):
    corpus = '{"_id": "d1", "title": "A", "text": "a"}\n{"_id": "d2", "title": "B", "text": "b"}\n'
    qrels = "query-id\tcorpus-id\tscore\nq1\td2\t1\n"
    write(in_tmp / "b", {"docs.jsonl": corpus, "topics.jsonl": '{"_id": "q1", "text": "x"}\n', "qrels/test.tsv": qrels})
    folder, left_out = build(in_tmp, in_tmp / "b")
    assert [row["name"] for row in folder.rows("nodes", "full")] == ["A", "B"]
    assert ([row["query"] for row in folder.rows("queries", "test")], left_out) == (["x"], [])


def test_an_end_that_is_no_position_of_a_node_leads_to_no_node(in_tmp):
    links = [{"source": 1, "target": 0}, {"source": -1, "target": 0}, {"source": 0, "target": 2}]
    write(in_tmp, {"g.json": json.dumps({"nodes": [{"id": "a"}, {"id": "b"}], "links": links})})
    folder, left_out = build(in_tmp, in_tmp / "g.json", skip_dangling=True)
    assert [(row["head"], row["tail"]) for row in folder.rows("edges", "full")] == [("b", "a")]
    assert left_out == ["2 of 3 edges, which lead to no node: '-1' (head, row 2), '2' (tail, row 3)."]


def test_ids_that_are_equal_as_text_are_refused(in_tmp):
    write(in_tmp, {"g.json": json.dumps({"nodes": [{"id": 1}, {"id": "1"}], "links": [{"source": 1, "target": "1"}]})})
    with pytest.raises(DataError, match="the nodes 1 and '1' have one id as text"):
        build(in_tmp, in_tmp / "g.json")


def test_columns_with_other_names_are_mapped(in_tmp):
    write(
        in_tmp,
        {
            "n.jsonl": '{"code": "a", "id": 9, "title": "Rome", "about": {"body": "Old."}}\n'
            '{"code": "b", "title": "Oslo"}\n',
            "e.csv": "from;to\na;b\n",
            "q.tsv": "qid\ttext\tgold\tlevel\n1\twhere?\tb\teasy\n",
        },
    )
    sources = {
        "nodes": {"id": "code", "type": "'city'", "name": "title", "text": "title+about.body"},
        "edges": {"head": "from", "tail": "to", "relation": "'near'"},
        "queries": {"id": "qid", "query": "text", "answer_ids": "gold"},
    }
    build_own_knowledge_base(
        "mine", *(in_tmp / name for name in ("n.jsonl", "e.csv", "q.tsv")), in_tmp / "kbbench/mine", map=sources
    )
    folder = DatasetFolder(in_tmp / "kbbench/mine")
    assert folder.rows("nodes", "full")[0] == {"id": "a", "type": "city", "name": "Rome", "text": "Rome\nOld."}
    assert folder.rows("edges", "full") == [{"head": "a", "tail": "b", "relation": "near"}]
    assert folder.rows("queries", "test") == [{"id": 1, "query": "where?", "answer_ids": ["b"], "level": "easy"}]


def test_a_folder_of_two_formats_is_refused_unless_one_is_named(in_tmp):
    ada = {"id": "a", "human_readable_id": 0, "title": "ADA", "type": "P", "description": "", "text_unit_ids": ["t"]}
    graphml = '<graphml><graph edgedefault="undirected"><node id="ADA"/></graph></graphml>'
    write(in_tmp / "output", {"entities.parquet": [ada], "graph.graphml": graphml})
    with pytest.raises(DataError, match=r"formats graphml, graphrag, which may be one graph twice; .*--format graphml"):
        build(in_tmp, in_tmp / "output")
    folder, left_out = build(in_tmp, in_tmp / "output", format="graphrag")
    assert [row["id"] for row in folder.rows("nodes", "full")] == ["a"]
    assert left_out == ["Files of no known format: 1 (graph.graphml)."]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.graphml", f"<!DOCTYPE g [<!ENTITY a 'b'>]>{GRAPHML[39:]}</graphml>", "defines entities"),
        ("g.graphml", f"{GRAPHML}<graph><node", r"g\.graphml, line 2: not XML"),
        (
            "g.obo",
            "format-version: 1.2\n\n[Term]\nid: X:1\nname: \udcff\n",
            r"g\.obo: damaged, or not OBO \(ValueError",
        ),
        ("g.obo", "format-version: 1.2\n\n[Term]\nid X\n", r"g\.obo: damaged, or not OBO \(SyntaxError"),
        ("g/raw/num-node-list.csv", "1\n2\n", "holds 2 graphs"),
        ("g/raw/num-node-dict.csv", "author,paper\n2\n", "damaged, or not a folder in OGB's layout"),
    ],
)
def test_a_damaged_file_is_refused_by_name(in_tmp, name, text, message):
    write(in_tmp, {name: text})
    with pytest.raises(DataError, match=message):
        build(in_tmp, in_tmp / name.partition("/")[0])


def test_edges_without_an_end_are_counted_and_columns_of_two_types_become_text(in_tmp):
    nodes = {"n.csv": ":ID,name\n1,a\n2,b\n", "a.csv": ":START_ID,:END_ID,:TYPE,since:int\n1,2,r,1990\n,2,r,5\n"}
    write(in_tmp / "graph", {**nodes, "b.csv": ":START_ID,:END_ID,:TYPE,since\n2,1,r,long ago\n"})
    folder, left_out = build(in_tmp, in_tmp / "graph")
    assert [row["since"] for row in folder.rows("edges", "full")] == ["1990", "long ago"]
    write(in_tmp, {"g.json": json.dumps({"nodes": ["a", "b"], "links": [{"source": "a"}]})})
    assert left_out == ["Edges without a head or a tail: 1 ( -> 2)."]
    folder, left_out = build(in_tmp, in_tmp / "g.json")
    assert [row["id"] for row in folder.rows("nodes", "full")] == ["a", "b"]
    assert left_out == ["Edges without a head or a tail: 1 (a -> )."]


def test_a_file_that_is_named_twice_counts_once(in_tmp):
    files = {"people.csv": ":ID,name,:LABEL\n1,Ann,P\n2,Bo,P\n", "rels.csv": ":START_ID,:END_ID,:TYPE\n1,2,knows\n"}
    write(in_tmp / "graph", files)
    folder, _ = build(in_tmp, in_tmp / "graph", in_tmp / "graph" / "rels.csv")
    assert len(list(folder.rows("edges", "full"))) == 1


@pytest.mark.parametrize(
    ("package", "text"),
    [("rdflib", "@prefix a: <http://a.org/> .\na:x a:y a:z .\n"), ("fastobo", "[Term]\nid: X:1\n")],
)
def test_a_missing_parser_is_named_with_what_installs_it(in_tmp, monkeypatch, package, text):
    monkeypatch.setitem(sys.modules, package, None)
    (in_tmp / "g").write_text(text)
    with pytest.raises(UsageError, match=rf"'{package}' is not installed.*pip install 'kbbench-hf\[ontology\]'"):
        build(in_tmp, in_tmp / "g")

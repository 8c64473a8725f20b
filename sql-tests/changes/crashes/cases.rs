//! The statements that crash, each with what was there before it.

use super::{COPY_FOOTERS, NEST_DELETES};

/// An array with the rows (1, 'a') to (9, 'i').
const LETTERS: &str = "CREATE EXTERNAL TABLE t (x INT NOT NULL, s VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                       LOCATION 'crash://store/array' OPTIONS ('tiledb.capacity' '4')";

const ROWS: &[&str] = &["INSERT INTO t SELECT i, chr(96 + i) FROM unnest(range(1, 10)) AS u(i)"];

/// A statement, and the array it starts from.
pub struct Case {
    pub name: &'static str,
    pub create: &'static str,
    pub before: &'static [&'static str],
    pub statement: &'static str,
}

/// Opens the table of a case.
pub const OPEN: &str = "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 'crash://store/array'";

const EVOLVED: &str = "CREATE EXTERNAL TABLE t (x INT NOT NULL, s VARCHAR, c VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB LOCATION \
     'crash://store/array' OPTIONS ('tiledb.attr.c.enumeration' '[\"a\", \"b\"]')";

/// Three commits of metadata, one of which removes a key that another has set.
const NOTES: [&str; 3] = [
    "SELECT * FROM tiledb_set_metadata('t', {'a': 1, 'b': 2})",
    "SELECT * FROM tiledb_set_metadata('t', {'a': 'one', 'c': [1, 2]})",
    "SELECT * FROM tiledb_delete_metadata('t', 'b')",
];

const MERGE_NOTES: &str =
    "SELECT * FROM tiledb_consolidate('crash://store/array', mode => 'array_metadata')";

const GROUP: [&str; 4] = [
    "SELECT * FROM tiledb_create_group('crash://store/group')",
    "SELECT * FROM tiledb_set_metadata('crash://store/group', {'a': 1, 'b': 2})",
    "SELECT * FROM tiledb_set_metadata('crash://store/group', {'a': 'one', 'c': [1, 2]})",
    "SELECT * FROM tiledb_delete_metadata('crash://store/group', 'b')",
];

const MERGE_GROUP: &str =
    "SELECT * FROM tiledb_consolidate('crash://store/group', mode => 'array_metadata')";

/// Fragments and a delete.
const COMMITS: [&str; 3] = [
    "INSERT INTO t SELECT i, chr(96 + i) FROM unnest(range(1, 10)) AS u(i)",
    "INSERT INTO t VALUES (2, 'two'), (20, 'twenty')",
    "DELETE FROM t WHERE x > 7",
];

const LIST_COMMITS: &str =
    "SELECT * FROM tiledb_consolidate('crash://store/array', mode => 'commits')";

pub const CASES: [Case; 29] = [
    Case {
        name: "insert_sparse",
        create: "CREATE EXTERNAL TABLE t (x INT NOT NULL, s VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                 LOCATION 'crash://store/array' OPTIONS ('tiledb.capacity' '4')",
        before: &["INSERT INTO t VALUES (1, 'a'), (2, 'b')"],
        statement: "INSERT INTO t SELECT i, 'new' || i FROM unnest(range(2, 12)) AS u(i)",
    },
    Case {
        name: "insert_dense",
        create: "CREATE EXTERNAL TABLE t (x INT NOT NULL, v INT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB \
                 LOCATION 'crash://store/array' OPTIONS \
                 ('tiledb.array_type' 'dense', 'tiledb.dim.x.domain' '[0, 99]', 'tiledb.dim.x.tile' '10')",
        before: &["INSERT INTO t SELECT i, i * 10 FROM unnest(range(0, 30)) AS u(i)"],
        // Several fragments: one box is filled up, the others are full.
        statement: "INSERT INTO t VALUES (3, -3), (7, -7), (55, -55), (91, -91)",
    },
    Case {
        name: "delete_by_condition",
        create: LETTERS,
        before: ROWS,
        statement: "DELETE FROM t WHERE x > 4",
    },
    Case {
        name: "delete_by_coordinates",
        create: LETTERS,
        before: ROWS,
        statement: "DELETE FROM t WHERE s IN ('b', 'd')",
    },
    Case {
        name: "update_that_moves",
        create: LETTERS,
        before: ROWS,
        statement: "UPDATE t SET x = x + 1, s = 'new' WHERE s >= 'd'",
    },
    Case {
        name: "merge",
        create: LETTERS,
        before: ROWS,
        statement: "MERGE INTO t USING (VALUES (1, 'one'), (2, 'two'), (20, 'new')) AS n(x, s) ON t.x = n.x \
                    WHEN MATCHED AND n.x = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET s = n.s \
                    WHEN NOT MATCHED THEN INSERT (x, s) VALUES (n.x, n.s)",
    },
    Case {
        name: "overwrite",
        create: LETTERS,
        before: ROWS,
        statement: "INSERT OVERWRITE t VALUES (5, 'five'), (50, 'fifty')",
    },
    Case {
        name: "truncate",
        create: LETTERS,
        before: ROWS,
        statement: "TRUNCATE TABLE t",
    },
    Case {
        // Twice the same cell: in between, nobody may see four.
        name: "consolidate",
        create: "CREATE EXTERNAL TABLE t (x INT NOT NULL, s VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                 LOCATION 'crash://store/array' OPTIONS ('tiledb.allows_duplicates' 'true')",
        before: &[
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            "INSERT INTO t VALUES (1, 'a'), (3, 'c')",
        ],
        statement: "SELECT * FROM tiledb_consolidate('crash://store/array', verify => true)",
    },
    Case {
        name: "vacuum",
        create: "CREATE EXTERNAL TABLE t (x INT NOT NULL, s VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                 LOCATION 'crash://store/array' OPTIONS ('tiledb.allows_duplicates' 'true')",
        before: &[
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            "INSERT INTO t VALUES (1, 'a'), (3, 'c')",
            "SELECT * FROM tiledb_consolidate('crash://store/array')",
            "INSERT INTO t VALUES (4, 'd')",
            "SELECT * FROM tiledb_consolidate('crash://store/array')",
            "SELECT * FROM tiledb_consolidate('crash://store/array', mode => 'commits')",
        ],
        statement: "SELECT * FROM tiledb_vacuum('crash://store/array', min_age => '0')",
    },
    Case {
        name: "create",
        create: "",
        before: &[],
        statement: "CREATE EXTERNAL TABLE t (x INT NOT NULL, c VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                    LOCATION 'crash://store/array' OPTIONS ('tiledb.attr.c.enumeration' '[\"a\", \"b\"]')",
    },
    Case {
        name: "alter_table",
        create: EVOLVED,
        before: &["INSERT INTO t VALUES (1, 'a', 'b')"],
        statement: "ALTER TABLE t DROP COLUMN s, ADD COLUMN d INT DEFAULT 5, \
                    ADD COLUMN e VARCHAR DEFAULT 'q' OPTIONS (enumeration = '[\"p\", \"q\"]')",
    },
    Case {
        name: "extend_enumeration",
        create: EVOLVED,
        before: &["INSERT INTO t VALUES (1, 'a', 'b')"],
        statement: "SELECT * FROM tiledb_extend_enumeration('t', 'c', ['c', 'd'])",
    },
    Case {
        name: "set_metadata",
        create: EVOLVED,
        before: &["SELECT * FROM tiledb_set_metadata('t', {'a': 1, 'b': 2})"],
        statement: "SELECT * FROM tiledb_set_metadata('t', {'a': 'one', 'c': [1, 2]})",
    },
    Case {
        name: "create_group",
        create: "",
        before: &[],
        statement: "SELECT * FROM tiledb_create_group('crash://store/group')",
    },
    Case {
        name: "add_member",
        create: EVOLVED,
        before: &["SELECT * FROM tiledb_create_group('crash://store/group')"],
        statement: "SELECT * FROM tiledb_add_member('crash://store/group', 'crash://store/array', name => 'a')",
    },
    Case {
        name: "remove_member",
        create: EVOLVED,
        before: &[
            "SELECT * FROM tiledb_create_group('crash://store/group')",
            "SELECT * FROM tiledb_add_member('crash://store/group', 'crash://store/array', name => 'a')",
        ],
        statement: "SELECT * FROM tiledb_remove_member('crash://store/group', 'a')",
    },
    Case {
        name: "copy_to",
        create: "",
        before: &[],
        statement: "COPY (SELECT i AS x, 'v' || i AS s FROM unnest(range(1, 12)) AS u(i)) TO 'crash://store/array' \
                    STORED AS TILEDB PARTITIONED BY (x)",
    },
    Case {
        name: "consolidate_commits",
        create: LETTERS,
        before: &COMMITS,
        statement: LIST_COMMITS,
    },
    Case {
        name: "vacuum_commits",
        create: LETTERS,
        before: &[
            COMMITS[0],
            COMMITS[1],
            LIST_COMMITS,
            COMMITS[2],
            "INSERT INTO t VALUES (3, 'three')",
            LIST_COMMITS,
        ],
        statement: "SELECT * FROM tiledb_vacuum('crash://store/array', mode => 'commits')",
    },
    Case {
        name: "consolidate_footers",
        create: LETTERS,
        before: &COMMITS,
        statement: COPY_FOOTERS,
    },
    Case {
        name: "vacuum_footers",
        create: LETTERS,
        before: &[
            COMMITS[0],
            COMMITS[1],
            COPY_FOOTERS,
            "INSERT INTO t VALUES (3, 'three')",
            COPY_FOOTERS,
            "INSERT INTO t VALUES (4, 'four')",
            COPY_FOOTERS,
        ],
        statement: "SELECT * FROM tiledb_vacuum('crash://store/array', mode => 'fragment_metadata')",
    },
    Case {
        name: "consolidate_metadata",
        create: EVOLVED,
        before: &NOTES,
        statement: MERGE_NOTES,
    },
    Case {
        // What replaces the first ones is replaced in turn, twice.
        name: "vacuum_metadata",
        create: EVOLVED,
        before: &[
            NOTES[0],
            NOTES[1],
            MERGE_NOTES,
            NOTES[2],
            MERGE_NOTES,
            "SELECT * FROM tiledb_set_metadata('t', {'d': 4})",
            MERGE_NOTES,
        ],
        statement: "SELECT * FROM tiledb_vacuum('crash://store/array', mode => 'array_metadata')",
    },
    Case {
        // Each delete is stored twice.
        name: "rewrite_deletes",
        create: LETTERS,
        before: &[
            COMMITS[0],
            COMMITS[1],
            COMMITS[2],
            "DELETE FROM t WHERE x = 2",
            NEST_DELETES,
            LIST_COMMITS,
        ],
        statement: "SELECT * FROM tiledb_consolidate('crash://store/array', mode => 'deletes')",
    },
    Case {
        // The statement first empties the delete that tests the column, wherever it is stored.
        name: "drop_tested_column",
        create: "CREATE EXTERNAL TABLE t (x INT NOT NULL, v INT NOT NULL, s VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
                 LOCATION 'crash://store/array'",
        before: &[
            "INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')",
            "INSERT INTO t VALUES (3, 30, 'c')",
            "DELETE FROM t WHERE v BETWEEN 15 AND 25",
            "SELECT * FROM tiledb_consolidate('crash://store/array')",
            "SELECT * FROM tiledb_vacuum('crash://store/array', min_age => '0')",
            LIST_COMMITS,
        ],
        statement: "ALTER TABLE t DROP COLUMN v",
    },
    Case {
        name: "set_metadata_of_group",
        create: "",
        before: &[GROUP[0], GROUP[1]],
        statement: GROUP[2],
    },
    Case {
        name: "consolidate_metadata_of_group",
        create: "",
        before: &GROUP,
        statement: MERGE_GROUP,
    },
    Case {
        name: "vacuum_metadata_of_group",
        create: "",
        before: &[
            GROUP[0],
            GROUP[1],
            GROUP[2],
            MERGE_GROUP,
            GROUP[3],
            MERGE_GROUP,
        ],
        statement: "SELECT * FROM tiledb_vacuum('crash://store/group', mode => 'array_metadata')",
    },
];

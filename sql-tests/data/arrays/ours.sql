-- Small arrays that this project writes: the statements that write them.
--
-- `make_arrays/cases/ours.py` runs them in the built shell and records what libtiledb reads; `ours.rs` runs them again and
-- compares rows and bytes. A line `--- <name>: <what it proves>` begins an array, which lies at `$ARRAY`; `windows` in
-- brackets behind the name are times at which it is read, too. Statements end with `;` at the end of a line. All times are given.

--- ours_integers: sparse, an integer of every width as dimension and attribute
CREATE EXTERNAL TABLE t (d1 TINYINT NOT NULL, d2 SMALLINT UNSIGNED NOT NULL, d3 INT NOT NULL, d4 BIGINT UNSIGNED NOT NULL,
  i8 TINYINT NOT NULL, u8 TINYINT UNSIGNED NOT NULL, i16 SMALLINT, u16 SMALLINT UNSIGNED, i32 INT, u32 INT UNSIGNED, i64 BIGINT, u64 BIGINT UNSIGNED,
  PRIMARY KEY (d1, d2, d3, d4)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '7');
INSERT INTO t VALUES (-128, 0, -7, 1, -128, 255, -32768, 65535, 2147483647, 4294967295, -9223372036854775808, 18446744073709551615),
  (0, 65000, 7, 18446744073709551000, 127, 0, NULL, NULL, NULL, NULL, NULL, NULL), (100, 9, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8);
INSERT INTO t SELECT value % 100, value * 600, -value, value * value, value % 7, value % 9, value * 300, value * 601, CASE WHEN value % 5 > 0 THEN value * 70000 END, value * 40000000, -value * 100000000000, value FROM range(1, 41);

--- ours_floats: sparse, floats as dimensions and attributes, among them NaN, infinities and zeros of both signs
CREATE EXTERNAL TABLE t (x DOUBLE NOT NULL, y REAL NOT NULL, f REAL, g DOUBLE NOT NULL, PRIMARY KEY (x, y))
  STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '5', 'tiledb.dim.x.domain' '[-100, 100]', 'tiledb.dim.x.tile' '10', 'tiledb.dim.y.domain' '[-10, 10]', 'tiledb.dim.y.tile' '2.5');
INSERT INTO t VALUES (-100, -10, NULL, 'NaN'), (0, 0.5, 'inf', -0.0), (1e-300, 1, '-inf', 0.0), (99.5, 10, 'NaN', 1e308), (3.25, -0.75, 1.5, -1e-308);
INSERT INTO t SELECT value / 3.0, value / 10.0, value / 7.0, value * 1e10 FROM range(5, 30);

--- ours_dates: sparse, dates and times of every unit
CREATE EXTERNAL TABLE t (day DATE NOT NULL, at TIMESTAMP(3) NOT NULL, hour TIMESTAMP(0), s TIMESTAMP(0), ms TIMESTAMP(3), us TIMESTAMP(6), ns TIMESTAMP, time TIME, week DATE, month DATE, year DATE,
  PRIMARY KEY (day, at)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '6', 'tiledb.attr.hour.type' 'DATETIME_HR', 'tiledb.attr.week.type' 'DATETIME_WEEK', 'tiledb.attr.month.type' 'DATETIME_MONTH', 'tiledb.attr.year.type' 'DATETIME_YEAR',
  'tiledb.dim.day.domain' '[1900-01-01, 2100-01-01]', 'tiledb.dim.day.tile' '30 days');
INSERT INTO t VALUES ('1969-12-31', '1969-12-31T23:59:59.999', '2020-01-01T05:00:00', '1960-02-03T04:05:06', '2020-01-01T00:00:00.123', '2020-01-01T00:00:00.123456', '2020-01-01T00:00:00.123456789', '23:59:59.999999999', '1970-01-08', '1999-12-01', '2024-01-01'),
  ('2024-02-29', '2024-02-29T00:00:00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

--- ours_texts: sparse, texts and bytes as dimension and attributes: empty, long, of several bytes, NULL
CREATE EXTERNAL TABLE t (k VARCHAR NOT NULL, n INT NOT NULL, s VARCHAR, a VARCHAR NOT NULL, b BYTEA, c VARCHAR, f BYTEA, PRIMARY KEY (k, n))
  STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '4', 'tiledb.attr.a.type' 'STRING_ASCII', 'tiledb.attr.c.type' 'CHAR[3]', 'tiledb.attr.f.type' 'BLOB[2]', 'tiledb.dim.k.filters' 'rle, zstd');
INSERT INTO t VALUES ('', 1, '', '', x'', 'abc', x'0001'), ('a', 1, NULL, 'x', NULL, NULL, NULL), ('a', 2, 'größer', 'yy', x'00ff10', 'zzz', x'ffff'), ('ab', -5, '漢字', 'zzz', x'0a', 'def', x'0a0b'), ('b', 0, 'emoji 🙂', repeat('long', 50), x'deadbeef', 'ghi', x'1234'), ('zz', 2147483646, repeat('é', 9), '', x'00', 'jkl', x'0000');

--- ours_lists: sparse, several values a cell, of fixed and of any number
CREATE EXTERNAL TABLE t (d INT NOT NULL, v BIGINT[], w REAL[3], PRIMARY KEY (d)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '4');
INSERT INTO t VALUES (1, [1, 2, 3], [0.5, 1.5, -2]), (2, [], [0, 0, 0]), (3, NULL, NULL), (4, [-9223372036854775808], [1e30, 2, 3]), (7, [5, 5], [7, 8, 9]);

--- ours_booleans: dense, booleans and bytes, NULL among them
CREATE EXTERNAL TABLE t (d SMALLINT NOT NULL, b BOOLEAN, c BOOLEAN NOT NULL, PRIMARY KEY (d)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000', 'tiledb.array_type' 'dense', 'tiledb.dim.d.domain' '[1, 20]', 'tiledb.dim.d.tile' '6');
INSERT INTO t SELECT value, CASE WHEN value % 3 > 0 THEN value % 2 = 0 END, value % 5 = 0 FROM range(1, 21);

--- ours_dense [0-1000, 0-2000]: dense in two dimensions, a box and then scattered cells, which leave the others as they are
CREATE EXTERNAL TABLE t (y INT NOT NULL, x INT NOT NULL, a INT NOT NULL, s VARCHAR, PRIMARY KEY (y, x)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000', 'tiledb.array_type' 'dense', 'tiledb.dim.y.domain' '[1, 9]', 'tiledb.dim.y.tile' '4', 'tiledb.dim.x.domain' '[-3, 6]', 'tiledb.dim.x.tile' '3');
INSERT INTO t SELECT y.value, x.value, y.value * 100 + x.value, CASE WHEN x.value > 0 THEN repeat('x', x.value) END FROM range(1, 8) y, range(-3, 5) x;
CREATE EXTERNAL TABLE t2 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '2000');
INSERT INTO t2 VALUES (2, -3, 1, 'one'), (9, 6, 2, 'two'), (5, 2, 3, NULL);
CREATE EXTERNAL TABLE t3 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '3000');
UPDATE t3 SET a = -a WHERE s = 'x';

--- ours_dense_columns: dense, cells and tiles in column order, dates as dimension
CREATE EXTERNAL TABLE t (d DATE NOT NULL, x DATE NOT NULL, a DOUBLE, PRIMARY KEY (d, x)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000', 'tiledb.array_type' 'dense', 'tiledb.cell_order' 'col-major', 'tiledb.tile_order' 'col-major', 'tiledb.dim.d.domain' '[2024-01-01, 2024-01-20]', 'tiledb.dim.d.tile' '7 days', 'tiledb.dim.x.domain' '[1970-01-01, 1970-01-06]', 'tiledb.dim.x.tile' '4 days');
INSERT INTO t SELECT DATE '2024-01-01' + CAST(d.value AS INT), DATE '1970-01-01' + CAST(x.value AS INT), CASE WHEN (d.value + x.value) % 4 > 0 THEN d.value + x.value / 10.0 END FROM range(0, 20) d, range(0, 6) x;

--- ours_fills: dense, fill values and validity of cells that nobody wrote
CREATE EXTERNAL TABLE t (d INT NOT NULL, a INT NOT NULL DEFAULT -1, s VARCHAR NOT NULL DEFAULT 'none', n DOUBLE, v INT DEFAULT 5, PRIMARY KEY (d)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000', 'tiledb.array_type' 'dense', 'tiledb.dim.d.domain' '[0, 30]', 'tiledb.dim.d.tile' '5');
INSERT INTO t VALUES (1, 10, 'a', 0.5, 1), (2, 20, '', NULL, NULL);
INSERT INTO t VALUES (23, 30, 'c', 1.5, 3);

--- ours_columns: sparse in two dimensions, column order, space tiles
CREATE EXTERNAL TABLE t (x INT NOT NULL, y INT NOT NULL, a INT, PRIMARY KEY (x, y)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '6', 'tiledb.cell_order' 'col-major', 'tiledb.tile_order' 'col-major', 'tiledb.dim.x.domain' '[0, 99]', 'tiledb.dim.x.tile' '10', 'tiledb.dim.y.domain' '[-50, 49]', 'tiledb.dim.y.tile' '25');
INSERT INTO t SELECT value * 37 % 100, value * 61 % 100 - 50, value FROM range(0, 60);

--- ours_hilbert [0-1000]: sparse in Hilbert order, floats and integers, overwritten
CREATE EXTERNAL TABLE t (x DOUBLE NOT NULL, y INT NOT NULL, a INT, PRIMARY KEY (x, y)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '6', 'tiledb.cell_order' 'hilbert', 'tiledb.dim.x.domain' '[0, 100]', 'tiledb.dim.y.domain' '[-50, 49]');
INSERT INTO t SELECT value * 37 % 100 + 0.5, value * 61 % 100 - 50, value FROM range(0, 60);
CREATE EXTERNAL TABLE t2 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '2000');
INSERT INTO t2 SELECT value * 37 % 100 + 0.5, value * 61 % 100 - 50, -value FROM range(10, 20);

--- ours_duplicates [0-1000]: several cells at the same coordinates
CREATE EXTERNAL TABLE t (d INT NOT NULL, s VARCHAR, PRIMARY KEY (d)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '4', 'tiledb.allows_duplicates' 'true');
INSERT INTO t VALUES (1, 'a'), (1, 'b'), (2, NULL), (2, 'c'), (3, 'd');
CREATE EXTERNAL TABLE t2 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '2000');
INSERT INTO t2 VALUES (1, 'a'), (3, 'e'), (9, '');
CREATE EXTERNAL TABLE t3 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '3000');
DELETE FROM t3 WHERE d = 2;

--- ours_overwritten [0-1000, 0-2000, 2000-3000]: cells written three times, and read at each time
CREATE EXTERNAL TABLE t (k VARCHAR NOT NULL, a INT, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '3');
INSERT INTO t SELECT 'k' || (value % 10), value FROM range(0, 10);
CREATE EXTERNAL TABLE t2 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '2000');
INSERT INTO t2 SELECT 'k' || value, NULL FROM range(3, 7);
CREATE EXTERNAL TABLE t3 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '3000');
REPLACE INTO t3 VALUES ('k5', 555), ('new', 1);

--- ours_changed [0-1000, 0-2000, 0-3000, 0-4000]: deletes by conditions and of cells, updates, a merge
CREATE EXTERNAL TABLE t (x INT NOT NULL, y INT NOT NULL, a INT, s VARCHAR NOT NULL, PRIMARY KEY (x, y)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '8', 'tiledb.dim.x.domain' '[0, 99]', 'tiledb.dim.x.tile' '10', 'tiledb.dim.y.domain' '[0, 99]', 'tiledb.dim.y.tile' '10');
INSERT INTO t SELECT value, value * 7 % 10, CASE WHEN value % 4 > 0 THEN value END, 's' || value FROM range(0, 40);
CREATE EXTERNAL TABLE t2 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '2000');
DELETE FROM t2 WHERE x < 5 OR s = 's20';
CREATE EXTERNAL TABLE t3 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '3000');
DELETE FROM t3 WHERE a IS NULL;
CREATE EXTERNAL TABLE t4 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '4000');
UPDATE t4 SET a = a * 10, s = upper(s) WHERE x % 3 = 0;
CREATE EXTERNAL TABLE t5 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '5000');
MERGE INTO t5 USING (SELECT CAST(value AS INT) AS x, CAST(value * 7 % 10 AS INT) AS y FROM range(30, 50)) n ON t5.x = n.x AND t5.y = n.y WHEN MATCHED AND t5.x < 33 THEN DELETE WHEN MATCHED THEN UPDATE SET a = -1 WHEN NOT MATCHED THEN INSERT (x, y, a, s) VALUES (n.x, n.y, 0, 'merged');

--- ours_truncated [0-1000, 0-2000]: all cells go, and others come
CREATE EXTERNAL TABLE t (d INT NOT NULL, a INT, PRIMARY KEY (d)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000');
INSERT INTO t VALUES (1, 1), (2, 2);
CREATE EXTERNAL TABLE t2 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '2000');
INSERT OVERWRITE t2 VALUES (2, 22), (3, 33);
CREATE EXTERNAL TABLE t3 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '3000');
INSERT INTO t3 VALUES (4, 44);

--- ours_enumerations [0-1000]: enumerations of texts, numbers and ordered ones, extended later
CREATE EXTERNAL TABLE t (d INT NOT NULL, c VARCHAR, n BIGINT NOT NULL, o VARCHAR NOT NULL, PRIMARY KEY (d)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000', 'tiledb.attr.c.enumeration' '["red", "grün", ""]', 'tiledb.attr.n.enumeration' '[1999, -5, 7]', 'tiledb.attr.n.type' 'UINT8', 'tiledb.attr.o.enumeration' '["low", "high"] ordered', 'tiledb.attr.o.type' 'INT8');
INSERT INTO t VALUES (1, 'red', 7, 'low'), (2, 'grün', -5, 'high'), (3, '', 1999, 'low'), (4, NULL, 7, 'high');
SELECT * FROM tiledb_extend_enumeration('$ARRAY', 'c', ['blue'], write_timestamp => 2000);
CREATE EXTERNAL TABLE t2 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '3000');
INSERT INTO t2 VALUES (5, 'blue', 7, 'low'), (1, 'blue', 1999, 'high');

--- ours_evolved [0-1000, 0-3000]: columns come and go between writes
CREATE EXTERNAL TABLE t (d INT NOT NULL, a INT, gone DOUBLE, PRIMARY KEY (d)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '3');
INSERT INTO t VALUES (1, 1, 0.5), (2, 2, 1.5), (3, NULL, NULL);
SELECT * FROM tiledb_evolve('$ARRAY', add => 'b VARCHAR', write_timestamp => 2000);
CREATE EXTERNAL TABLE t2 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '3000');
INSERT INTO t2 VALUES (2, 22, 2.5, 'two'), (4, 4, 4.5, NULL);
SELECT * FROM tiledb_evolve('$ARRAY', drop => 'gone', write_timestamp => 4000);
CREATE EXTERNAL TABLE t3 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '5000');
INSERT INTO t3 VALUES (5, 5, 'five');

--- ours_consolidated [0-1000, 0-2000, 2000-3000]: fragments made one with the times of their cells, and vacuumed
CREATE EXTERNAL TABLE t (x INT NOT NULL, y INT NOT NULL, a INT, s VARCHAR, PRIMARY KEY (x, y)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '5', 'tiledb.dim.x.domain' '[0, 99]', 'tiledb.dim.x.tile' '10', 'tiledb.dim.y.domain' '[0, 99]', 'tiledb.dim.y.tile' '10');
INSERT INTO t SELECT value * 3, value, value + 0, 'first' FROM range(0, 20);
CREATE EXTERNAL TABLE t2 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '2000');
INSERT INTO t2 SELECT value * 3, value, -value, NULL FROM range(10, 30);
CREATE EXTERNAL TABLE t3 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '3000');
DELETE FROM t3 WHERE x BETWEEN 30 AND 40;
SELECT * FROM tiledb_consolidate('$ARRAY', verify => true);
SELECT * FROM tiledb_vacuum('$ARRAY', min_age => '0');

--- ours_consolidated_newest: fragments made one without times
CREATE EXTERNAL TABLE t (k VARCHAR NOT NULL, a INT, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '4');
INSERT INTO t SELECT 'k' || value, value FROM range(0, 12);
CREATE EXTERNAL TABLE t2 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '2000');
INSERT INTO t2 SELECT 'k' || value, -value FROM range(6, 18);
SELECT * FROM tiledb_consolidate('$ARRAY', timestamps => false);
SELECT * FROM tiledb_vacuum('$ARRAY', min_age => '0');

--- ours_consolidated_dense: dense fragments made one
CREATE EXTERNAL TABLE t (d INT NOT NULL, a INT, PRIMARY KEY (d)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000', 'tiledb.array_type' 'dense', 'tiledb.dim.d.domain' '[0, 39]', 'tiledb.dim.d.tile' '8');
INSERT INTO t SELECT value, value + 0 FROM range(0, 20);
CREATE EXTERNAL TABLE t2 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '2000');
INSERT INTO t2 SELECT value, NULL FROM range(15, 30);
SELECT * FROM tiledb_consolidate('$ARRAY', verify => true);
SELECT * FROM tiledb_vacuum('$ARRAY', min_age => '0');

--- ours_commits [0-1000, 0-2000]: one file of commits and deletes, one of footers
CREATE EXTERNAL TABLE t (d INT NOT NULL, a INT NOT NULL, PRIMARY KEY (d)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000');
INSERT INTO t VALUES (1, 1), (2, 2), (3, 3);
CREATE EXTERNAL TABLE t2 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '2000');
DELETE FROM t2 WHERE a = 2;
CREATE EXTERNAL TABLE t3 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '3000');
INSERT INTO t3 VALUES (4, 4);
SELECT * FROM tiledb_consolidate('$ARRAY', mode => 'commits');
SELECT * FROM tiledb_consolidate('$ARRAY', mode => 'fragment_metadata');
SELECT * FROM tiledb_vacuum('$ARRAY', mode => 'commits');

--- ours_metadata: key-value metadata, overwritten, removed, and made one
CREATE EXTERNAL TABLE t (d INT NOT NULL, a INT, PRIMARY KEY (d)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000');
INSERT INTO t VALUES (1, 1);
SELECT * FROM tiledb_set_metadata('$ARRAY', {'title': 'größer', 'count': 42, 'share': 0.25}, write_timestamp => 1000);
SELECT * FROM tiledb_set_metadata('$ARRAY', 'count', 43, write_timestamp => 2000);
SELECT * FROM tiledb_delete_metadata('$ARRAY', 'share', write_timestamp => 3000);
SELECT * FROM tiledb_consolidate('$ARRAY', mode => 'array_metadata');

--- ours_domains: a current domain, and an attribute without a name
CREATE EXTERNAL TABLE t (k VARCHAR NOT NULL, x INT NOT NULL, attr INT, PRIMARY KEY (k, x)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000', 'tiledb.current_domain' '["a", "m"], [0, 99]', 'tiledb.attr.attr.anonymous' 'true', 'tiledb.dim.x.domain' '[-1000, 1000]', 'tiledb.dim.x.tile' '100');
INSERT INTO t VALUES ('a', 0, 1), ('m', 99, 2), ('bcd', 50, NULL);

--- ours_compressors: dense, every compressor
CREATE EXTERNAL TABLE t (d INT NOT NULL, gzip INT, zstd BIGINT, lz4 SMALLINT, bzip2 DOUBLE, rle INT, none INT, PRIMARY KEY (d)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000', 'tiledb.array_type' 'dense', 'tiledb.dim.d.domain' '[0, 99]', 'tiledb.dim.d.tile' '40',
  'tiledb.attr.gzip.filters' 'gzip(6)', 'tiledb.attr.zstd.filters' 'zstd(7)', 'tiledb.attr.lz4.filters' 'lz4', 'tiledb.attr.bzip2.filters' 'bzip2(9)', 'tiledb.attr.rle.filters' 'rle', 'tiledb.attr.none.filters' '', 'tiledb.validity_filters' 'rle');
INSERT INTO t SELECT value, value / 3, value * 1000000007, CASE WHEN value % 2 > 0 THEN value END, value / 8.0, value / 25, value * value FROM range(0, 90);

--- ours_filters: sparse, every other filter, and several on top of each other
CREATE EXTERNAL TABLE t (d BIGINT NOT NULL, delta BIGINT, double_delta INT NOT NULL, positive BIGINT UNSIGNED NOT NULL, width INT, bits BIGINT, bytes DOUBLE, xored INT, scaled DOUBLE, md5 INT, sha256 VARCHAR, dict VARCHAR, runs VARCHAR NOT NULL, stack INT, PRIMARY KEY (d))
  STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '16', 'tiledb.dim.d.filters' 'delta, bit_width_reduction', 'tiledb.offsets_filters' 'positive_delta, bit_width_reduction, zstd',
  'tiledb.attr.delta.filters' 'delta', 'tiledb.attr.double_delta.filters' 'double_delta, zstd', 'tiledb.attr.positive.filters' 'positive_delta(64)', 'tiledb.attr.width.filters' 'bit_width_reduction(64)', 'tiledb.attr.bits.filters' 'bitshuffle, lz4', 'tiledb.attr.bytes.filters' 'byteshuffle, zstd', 'tiledb.attr.xored.filters' 'xor, gzip',
  'tiledb.attr.scaled.filters' 'float_scale(0.25, 1, 4), zstd', 'tiledb.attr.md5.filters' 'checksum_md5', 'tiledb.attr.sha256.filters' 'checksum_sha256', 'tiledb.attr.dict.filters' 'dictionary, zstd', 'tiledb.attr.runs.filters' 'rle', 'tiledb.attr.stack.filters' 'bitshuffle, rle, zstd, checksum_md5');
INSERT INTO t SELECT value * 1000, value * 7 - 100, value * value, value * 3, value % 9, value * 12345, value / 16.0, value * 3 % 7, value / 4.0, value, 'text ' || value, 'd' || (value % 4), 'r' || (value / 10), value / 5 FROM range(0, 50);

--- ours_encrypted [0-1000] (key): encrypted, with an enumeration and texts
CREATE EXTERNAL TABLE t (d INT NOT NULL, s VARCHAR, c VARCHAR NOT NULL, PRIMARY KEY (d)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '4', 'tiledb.encryption_key' '$KEY', 'tiledb.attr.c.enumeration' '["a", "b"]');
INSERT INTO t SELECT value, CASE WHEN value % 3 > 0 THEN 'secret ' || value END, CASE WHEN value % 2 = 0 THEN 'a' ELSE 'b' END FROM range(0, 10);
CREATE EXTERNAL TABLE t2 STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '2000', 'tiledb.encryption_key' '$KEY');
INSERT INTO t2 VALUES (3, 'new', 'b');

--- ours_copied: a query's rows as a new array, made as their types want it
COPY (SELECT value AS d, value * 2 AS twice, CAST(value AS VARCHAR) AS text FROM range(0, 25)) TO '$ARRAY' STORED AS TILEDB PARTITIONED BY (d) OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '10', 'tiledb.choose_by' 'types');

--- ours_chosen: a query's rows as a new array, made as they want it: domains, an enumeration, filters
COPY (SELECT value AS d, value * 2 AS twice, CASE WHEN value % 3 = 0 THEN 'three' ELSE 'größer' END AS kind, value / 8.0 AS share, 'text ' || value AS text FROM range(0, 2000)) TO '$ARRAY' STORED AS TILEDB PARTITIONED BY (d) OPTIONS ('tiledb.write_timestamp' '1000');

--- ours_times: sparse, times of the day and counts of days as dimensions
CREATE EXTERNAL TABLE t (at TIME NOT NULL, ns TIMESTAMP NOT NULL, a INT, PRIMARY KEY (at, ns)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000', 'tiledb.dim.ns.domain' '[2000-01-01, 2030-01-01]', 'tiledb.dim.ns.tile' '1 hour');
INSERT INTO t VALUES ('00:00:00', '2000-01-01T00:00:00', 1), ('23:59:59.999', '2029-12-31T23:59:59.999999999', 2), ('12:30:00', '2024-02-29T12:00:00', NULL);

--- ours_empty: an array without fragments
CREATE EXTERNAL TABLE t (d INT NOT NULL, s VARCHAR, PRIMARY KEY (d)) STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000');

--- ours_webp: dense, lossless images of every form of pixels, tiles cut by the domain and written in part, colours that nobody sees
CREATE EXTERNAL TABLE t (y INT NOT NULL, x INT NOT NULL, rgb TINYINT UNSIGNED NOT NULL, bgr TINYINT UNSIGNED, rgba TINYINT UNSIGNED NOT NULL, bgra TINYINT UNSIGNED NOT NULL, PRIMARY KEY (y, x))
  STORED AS TILEDB LOCATION '$ARRAY' OPTIONS ('tiledb.write_timestamp' '1000', 'tiledb.capacity' '100000', 'tiledb.array_type' 'dense', 'tiledb.dim.y.domain' '[1, 9]', 'tiledb.dim.y.tile' '4', 'tiledb.dim.x.domain' '[-6, 23]', 'tiledb.dim.x.tile' '12',
  'tiledb.attr.rgb.filters' 'webp(rgb, lossless)', 'tiledb.attr.bgr.filters' 'webp(bgr, lossless), zstd(3)', 'tiledb.attr.rgba.filters' 'webp(rgba, lossless)', 'tiledb.attr.bgra.filters' 'webp(bgra, lossless), checksum_md5');
INSERT INTO t SELECT 1 + value / 30, value % 30 - 6, value * value % 251, CASE WHEN value % 7 > 0 THEN value / 3 END, CASE WHEN value % 3 = 0 THEN 0 ELSE value * 7 % 256 END, 255 - value % 4 FROM range(30, 240);

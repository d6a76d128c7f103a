-- 50 000 rows: inserted, indexed, joined, changed, deleted, checked.
PRAGMA journal_mode = WAL;
CREATE TABLE item (id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, weight REAL);
CREATE TABLE kind (id INTEGER PRIMARY KEY, label TEXT);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
INSERT INTO item SELECT i, i * 31 % 97, 'item ' || (i * 7919 % 50021), i / 7.0 FROM n;
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 96)
INSERT INTO kind SELECT i, printf('kind %03d', i) FROM n;
COMMIT;
CREATE INDEX item_kind ON item (kind, weight);
CREATE INDEX item_name ON item (name);
SELECT label, count(*), round(sum(weight), 3), max(name) FROM item JOIN kind ON kind.id = item.kind
    GROUP BY label ORDER BY 3 DESC LIMIT 5;
SELECT count(*) FROM item a JOIN item b ON a.name = b.name AND a.id <= b.id;
UPDATE item SET name = name || ' (heavy)' WHERE weight > 5000;
DELETE FROM item WHERE id % 3 = 0;
SELECT count(*), sum(length(group_name)) FROM (SELECT group_concat(name) AS group_name FROM item GROUP BY kind);
VACUUM;
PRAGMA integrity_check;

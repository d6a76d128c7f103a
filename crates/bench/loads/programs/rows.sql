-- Inserts, indices, selects, updates and deletes on tables in memory.
PRAGMA temp_store = memory;
CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, town INTEGER, note TEXT);
CREATE TABLE towns(id INTEGER PRIMARY KEY, name TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
INSERT INTO towns SELECT i, 'town-' || (i * 7919 % 1009) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO people
SELECT i, 'name-' || (i * 7919 % 200003), i * 31 % 1000 + 1,
  substr('nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn', 1, i % 50) FROM n;
CREATE INDEX by_name ON people(name);
CREATE INDEX by_town ON people(town, note);
SELECT count(*), sum(length(note)) FROM people WHERE name BETWEEN 'name-1' AND 'name-3';
SELECT t.name, count(*), min(p.name) FROM people p JOIN towns t ON t.id = p.town
GROUP BY t.name ORDER BY 2 DESC, 1 LIMIT 20;
UPDATE people SET note = note || name WHERE id % 3 = 0;
DELETE FROM people WHERE town BETWEEN 100 AND 300;
SELECT count(DISTINCT note) FROM people;
SELECT sum(length(names)) FROM (SELECT group_concat(name) AS names FROM people GROUP BY town);
SELECT count(*), sum(length(note)) FROM people;

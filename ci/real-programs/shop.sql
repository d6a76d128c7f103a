-- MariaDB: some thousands of rows, joins, text, transactions, large values.
CREATE DATABASE IF NOT EXISTS shop;
USE shop;
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(80), town INT, KEY (town)) ENGINE=InnoDB;
CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, customer INT, amount DECIMAL(10,2), note TEXT,
                     KEY (customer)) ENGINE=InnoDB;
CREATE TABLE totals (customer INT PRIMARY KEY, amount DECIMAL(12,2)) ENGINE=Aria;
INSERT INTO customers SELECT seq, CONCAT('customer ', REPEAT(CHAR(97 + seq % 26), seq % 40)), seq % 97
    FROM seq_1_to_4000;
INSERT INTO orders (customer, amount, note) SELECT 1 + seq * 7919 % 4000, seq % 1000 / 7, REPEAT(MD5(seq), seq % 20)
    FROM seq_1_to_20000;
SELECT COUNT(*), SUM(amount), SUM(LENGTH(note)) FROM orders;
INSERT INTO totals SELECT customer, SUM(amount) FROM orders GROUP BY customer;
SELECT c.town, COUNT(*), SUM(o.amount), MAX(t.amount) FROM customers c JOIN orders o ON o.customer = c.id
    JOIN totals t ON t.customer = c.id GROUP BY c.town ORDER BY SUM(o.amount) DESC, c.town LIMIT 10;
SELECT a.town, COUNT(*) FROM customers a JOIN customers b ON a.town = b.town AND a.id < b.id
    GROUP BY a.town ORDER BY a.town LIMIT 5;
SELECT MD5(GROUP_CONCAT(name ORDER BY id)) FROM customers WHERE id < 20;
START TRANSACTION;
UPDATE orders SET amount = amount + 1, note = CONCAT(note, REVERSE(note)) WHERE id % 3 = 0;
SELECT SUM(amount), SUM(CRC32(note)) FROM orders;
ROLLBACK;
SELECT SUM(amount), SUM(CRC32(note)) FROM orders;
DELETE FROM orders WHERE id % 5 = 0;
ALTER TABLE orders ADD COLUMN extra BIGINT AS (customer * 7919) PERSISTENT;
SELECT SUM(extra) FROM orders;
SELECT LENGTH(REPEAT('x', 3000000)), MD5(REPEAT('slab', 500000));
WITH RECURSIVE r (n, t) AS (SELECT 1, CAST('a' AS CHAR(2000)) UNION ALL SELECT n + 1, CONCAT(t, 'b') FROM r WHERE n < 900)
    SELECT COUNT(*), SUM(LENGTH(t)) FROM r;
SELECT JSON_LENGTH(JSON_ARRAYAGG(JSON_OBJECT('id', id, 'name', name))) FROM customers;
SELECT SUM(w) FROM (SELECT SUM(amount) OVER (PARTITION BY customer ORDER BY id) AS w FROM orders) x;
SELECT SUM(name REGEXP 'customer (ab|c+|z{3,})') FROM customers;
CHECK TABLE customers, orders, totals;

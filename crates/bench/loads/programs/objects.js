// Objects, JSON, strings, maps and buffers that live for a while; prints a digest.
"use strict";

let seed = 1;
function random(below) {
  seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
  return (seed >>> 8) % below;
}

let digest = 0;
function add(number) {
  digest = (digest * 31 + number) % 1000000007;
}

function record(id) {
  return {
    id,
    name: "user-" + random(1 << 20).toString(16),
    tags: Array.from({ length: random(8) }, () => "tag-" + random(5000)),
    address: { street: "x".repeat(random(60)), number: random(999) },
  };
}

function json() {
  let rows = Array.from({ length: 40000 }, (_, id) => record(id));
  for (let round = 0; round < 3; round++) {
    const text = JSON.stringify(rows);
    add(text.length);
    rows = JSON.parse(text).sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.id - b.id));
  }
  add(rows[77].id);
}

function maps() {
  const counts = new Map();
  for (let i = 0; i < 400000; i++) {
    const key = "key" + random(60000);
    counts.set(key, (counts.get(key) || 0) + 1);
  }
  for (const [key, count] of counts) add(key.length + count);
}

// Their bytes are the allocator's, not the garbage collector's.
function buffers() {
  const live = [];
  for (let i = 0; i < 30000; i++) {
    const buffer = Buffer.alloc(4096 + random(30000), i & 255);
    live[random(400)] = buffer;
    add(buffer.length + buffer[buffer.length - 1]);
  }
}

json();
maps();
buffers();
console.log(digest);

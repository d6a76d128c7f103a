//! The programs' inputs, written into a directory before anything runs: scripts that are stored as
//! files, and long inputs that are generated here.
//!
//! All inputs are the same in each run and on each machine.

use std::fmt::Write as _;

/// Of Python: all kinds of work in Python itself.
pub const PURE: &[u8] = include_bytes!("../../loads/programs/pure.py");
pub const LUA: &[u8] = include_bytes!("../../loads/programs/objects.lua");
/// Of node.
pub const JAVASCRIPT: &[u8] = include_bytes!("../../loads/programs/objects.js");
/// Of sqlite3.
pub const SQL: &[u8] = include_bytes!("../../loads/programs/rows.sql");
/// Of Ghostscript.
pub const POSTSCRIPT: &[u8] = include_bytes!("../../loads/programs/pages.ps");

const C_FUNCTIONS: u32 = 600;
const RUST_FUNCTIONS: u32 = 6;
const HOLES: u32 = 9;
const REDIS_COMMANDS: u32 = 120_000;
/// Any number; xorshift's needs to be another than 0.
const SEED: u32 = 0x2545_f491;

/// Marsaglia's 32-bit xorshift (2003).
struct Random(u32);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % limit
    }
}

/// A C file of many functions that call one another; not inlined, as their
/// number is to be the work and not their nesting.
pub fn c_source() -> String {
    let mut random = Random(SEED);
    let mut text = "#define F __attribute__((noinline)) int\n\
         struct node { struct node *next; int key; double weight; };\n"
        .to_owned();
    for i in 0..C_FUNCTIONS {
        let (a, b) = (random.below(97) + 2, random.below(31) + 1);
        let callee = random.below(i.max(1));
        let call = if i == 0 { "n".to_owned() } else { format!("f{callee}(n - 1, list)") };
        let _ = match i % 3 {
            0 => writeln!(
                text,
                "F f{i}(int n, struct node *list) {{\n  int sum = {b};\n  \
                 for (int k = 0; k < n % {a}; k++) sum += k * {b} ^ sum >> 3;\n  \
                 return n <= 0 ? sum : sum + {call};\n}}"
            ),
            1 => writeln!(
                text,
                "F f{i}(int n, struct node *list) {{\n  int found = 0;\n  \
                 for (; list; list = list->next)\n    if (list->key % {a} == {b}) \
                 {{ list->weight *= {b}.5; found++; }}\n  \
                 return n > {a} ? found : {call} + found;\n}}"
            ),
            _ => writeln!(
                text,
                "F f{i}(int n, struct node *list) {{\n  switch (n % 5) {{\n  \
                 case 0: return {call};\n  case 1: return n * {a};\n  \
                 case 2: return list ? list->key : {b};\n  case 3: n += {a};\n  \
                 default: return n / {b};\n  }}\n}}"
            ),
        };
    }
    text
}

/// A small Rust crate of generic structures, each with its own derives.
pub fn rust_source() -> String {
    let mut text = "use std::collections::{BTreeMap, HashMap};\n".to_owned();
    for i in 0..RUST_FUNCTIONS {
        let _ = writeln!(
            text,
            "#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]\n\
             pub struct S{i} {{ pub a: u{}, pub b: String, pub c: Vec<Option<u32>> }}\n\
             pub fn f{i}(rows: &[S{i}]) -> Option<(usize, String)> {{\n    \
             let mut seen: HashMap<&str, Vec<&S{i}>> = HashMap::new();\n    \
             for row in rows {{ seen.entry(row.b.as_str()).or_default().push(row); }}\n    \
             let sorted: BTreeMap<_, _> = seen.iter().map(|(k, v)| (v.len() + {i}, *k)).collect();\n    \
             let all = sorted.values().map(|k| format!(\"{{k}}-{i}\")).collect::<Vec<_>>().join(\",\");\n    \
             sorted.keys().next_back().map(|n| (*n, all))\n}}",
            if i % 2 == 0 { 32 } else { 64 }
        );
    }
    text
}

/// One pigeon more than there are holes.
pub fn smt() -> String {
    let mut text = String::new();
    for pigeon in 0..=HOLES {
        for hole in 0..HOLES {
            let _ = writeln!(text, "(declare-const p{pigeon}h{hole} Bool)");
        }
        let places: Vec<String> = (0..HOLES).map(|hole| format!("p{pigeon}h{hole}")).collect();
        let _ = writeln!(text, "(assert (or {}))", places.join(" "));
        for (other, hole) in (0..pigeon).flat_map(|p| (0..HOLES).map(move |h| (p, h))) {
            let _ = writeln!(text, "(assert (not (and p{pigeon}h{hole} p{other}h{hole})))");
        }
    }
    text + "(check-sat)\n"
}

/// Commands of Redis in its own protocol: strings, lists, hashes, sorted sets,
/// replaced and deleted again.
pub fn redis_commands() -> Vec<u8> {
    let mut random = Random(SEED);
    let mut text = Vec::new();
    for i in 0..REDIS_COMMANDS {
        let key = random.below(20_000);
        let value = "v".repeat(1 + random.below(if i % 50 == 0 { 6000 } else { 180 }) as usize);
        let number = random.below(1000).to_string();
        let words: Vec<String> = match random.below(10) {
            0..=3 => vec!["SET".into(), format!("string:{key}"), value],
            4 => vec!["APPEND".into(), format!("string:{key}"), value],
            5 => vec!["LPUSH".into(), format!("list:{}", key % 900), value],
            6 => vec!["HSET".into(), format!("hash:{}", key % 900), format!("f{number}"), value],
            7 => vec!["ZADD".into(), format!("set:{}", key % 900), number, format!("m{key}")],
            8 => vec!["RPOP".into(), format!("list:{}", key % 900)],
            _ => vec!["DEL".into(), format!("string:{}", random.below(20_000))],
        };
        text.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            text.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_as_long_as_meant_and_always_the_same() {
        let functions = c_source().matches("(int n, struct node *list)").count();
        assert_eq!(functions, C_FUNCTIONS as usize);
        assert_eq!(rust_source().matches("pub fn").count(), RUST_FUNCTIONS as usize);
        assert_eq!(smt().matches("(declare-const").count() as u32, (HOLES + 1) * HOLES);
        let commands = redis_commands();
        let starts = commands.windows(3).filter(|w| w[0] == b'*' && w[2] == b'\r').count();
        assert_eq!(starts, REDIS_COMMANDS as usize);
        assert!(c_source() == c_source() && commands == redis_commands());
    }
}

# Reads Rust files and says where one breaks the rules of the house. The rules
# are named in `ci/floors`, which calls this with
#   floors  "0 sync list\n1 platform\n..." of the modules of the engine's crate
#   engine  the path, with a final /, of the directory whose files are on floors
# A violation is one line, `path:line: what`.
#
# Walk of a file: lines -> `lex` of `ci/rust.awk` -> tokens -> `judge`. Only names
# that begin at the crate's root can leave a module, so `judge` looks at `crate::`
# and at as many `super::` as reach it.

BEGIN {
    split(floors, row, "\n")
    for (r in row) {
        n = split(row[r], word, " ")
        for (w = 2; w <= n; w++) floor[word[w]] = word[1]
    }
    split("common utils types core prelude", word, " ")
    for (w in word) vague[word[w]] = 1
}

FNR == 1 { if (path != "") judge(); path = FILENAME; nr = 0; begin_file() }
{ lex($0) }
END {
    if (path != "") judge()
    # Now the floors of all exported macros are known.
    for (u = 1; u <= nr_called; u++) {
        split(called[u], field, "\t")
        judge_name(field[1], field[2], field[3], field[4])
    }
    if (head_seen == 0) say(engine "engine/mod.rs", 1, "no file engine/mod.rs with #![forbid(unsafe_code)]")
}

function say(where, at, what) { printf "%s:%d: %s\n", where, at, what }

# A file: its module's path, then every token once.
function judge(    inside, part, n, i, k, d, here, mods, open, at_mod) {
    for (i = 1; i <= nr; i++)
        if (tok[i] == "mod" && tok[i + 1] in vague && (tok[i + 2] == ";" || tok[i + 2] == "{"))
            say(path, line[i], "a module named " tok[i + 1] " says nothing")

    if (engine == "" || index(path, engine) != 1) return
    inside = substr(path, length(engine) + 1)
    if (inside == "lib.rs") return
    sub(/\.rs$/, "", inside); sub(/\/mod$/, "", inside)
    n = split(inside, part, "/")
    here = part[1]
    if (here == "engine") judge_engine(inside)
    if (!(here in floor)) { say(path, 1, "module " here " is on no floor"); return }

    d = 0; mods = 0
    for (i = 1; i <= nr; i++) {
        if (tok[i] == "#" && tok[i + 1] == "[" && tok[i + 2] == "cfg" && for_tests(i)) {
            i = skip_item(i)
            continue
        }
        if (tok[i] == "macro_rules") floor[tok[i + 2]] = floor[here]
        if (tok[i] == "mod" && tok[i + 2] == "{") at_mod[d + 1] = ++mods
        if (tok[i] == "{") d++
        if (tok[i] == "}") { if (d in at_mod) { delete at_mod[d]; mods-- } d-- }
        if (tok[i] == "crate") {
            names(i + 1, here)
        } else if (tok[i] == "super" && tok[i - 2] != "super") {
            for (k = 1; tok[i + 1] == "::" && tok[i + 2] == "super"; k++) i += 2
            if (k >= n + mods) names(i + 1, here)
        }
    }
}

# Policy owns no `unsafe`, its tests neither.
function judge_engine(inside,    i) {
    for (i = 1; i <= nr; i++) {
        if (tok[i] == "unsafe") say(path, line[i], "unsafe in the engine")
        if (inside == "engine" && tok[i] == "forbid" && tok[i - 1] == "[" && tok[i - 2] == "!" && tok[i + 2] == "unsafe_code")
            head_seen = 1
    }
}

# What is named behind the crate's root; i is the token after it.
function names(i, here,    d) {
    if (tok[i] == "as") say(path, line[i], "the crate's root under another name")
    if (tok[i] != "::") return
    i++
    if (tok[i] != "{") { name(i, here); return }
    for (d = 1; d > 0 && ++i <= nr;) {
        if (d == 1 && (tok[i - 1] == "{" || tok[i - 1] == ",") && tok[i] != "}") name(i, here)
        if (tok[i] == "{") d++
        if (tok[i] == "}") d--
    }
}

# An exported macro is at the root whatever file it is in; its floor is its file's.
function name(i, here) {
    if (tok[i + 1] == "!") called[++nr_called] = path "\t" line[i] "\t" here "\t" tok[i]
    else judge_name(path, line[i], here, tok[i])
}

function judge_name(where, row, here, named) {
    if (!(named in floor))
        say(where, row, here " names crate::" named ", which is on no floor")
    else if (floor[named] > floor[here])
        say(where, row, here " (floor " floor[here] ") names " named " (floor " floor[named] ")")
}

# Reads Rust files as tokens, without comments, strings and characters: `tok` and
# `line`, numbered to `nr`. `ci/floors` puts this before the awk file of a rule,
# which calls `begin_file` at a file's first line, `lex` at each, and decides
# when to start the tokens anew.

BEGIN {
    split("fn mod use impl struct enum union const static pub unsafe type trait extern async macro_rules", word, " ")
    for (w in word) item[word[w]] = 1
}

function begin_file() { nested = quoted = raw = 0 }

# One line to tokens; `nested`, `quoted` and `raw` carry what is open at its end.
function lex(s,    c, n) {
    while (s != "") {
        if (nested) {
            if (!match(s, /\*\/|\/\*/)) return
            nested += (substr(s, RSTART, 1) == "/") ? 1 : -1
            s = substr(s, RSTART + 2)
        } else if (quoted) {
            if (!match(s, /^([^"\\]|\\.)*"/)) return
            s = substr(s, RLENGTH + 1); quoted = 0
        } else if (raw) {
            n = index(s, closing)
            if (!n) return
            s = substr(s, n + length(closing)); raw = 0
        } else if (match(s, /^[ \t]+/)) {
            s = substr(s, RLENGTH + 1)
        } else if (substr(s, 1, 2) == "//") {
            return
        } else if (substr(s, 1, 2) == "/*") {
            nested = 1; s = substr(s, 3)
        } else if (match(s, /^[bc]?r#*"/)) {
            closing = substr(s, 1, RLENGTH - 1)
            sub(/^[bc]?r/, "", closing)
            closing = "\"" closing
            s = substr(s, RLENGTH + 1); raw = 1
        } else if (match(s, /^[A-Za-z_][A-Za-z0-9_]*/) || match(s, /^::/)) {
            push(substr(s, 1, RLENGTH)); s = substr(s, RLENGTH + 1)
        } else if (match(s, /^[0-9][A-Za-z0-9_]*/)) {
            s = substr(s, RLENGTH + 1)
        } else if (match(s, /^'\\.[^']*'/) || match(s, /^'[^'\\]'/) || match(s, /^'[\200-\377]+'/)) {
            s = substr(s, RLENGTH + 1)
        } else {
            c = substr(s, 1, 1)
            if (c == "\"") quoted = 1; else push(c)
            s = substr(s, 2)
        }
    }
}

function push(t) { tok[++nr] = t; line[nr] = FNR }

# Does the attribute at i say that what follows is for tests alone?
function for_tests(i,    test) {
    for (i += 3; i <= nr && tok[i] != "]"; i++) {
        if (tok[i] == "not" || tok[i] == "any") return 0
        if (tok[i] == "test") test = 1
    }
    return test
}

# The last token of what the attribute at i belongs to.
function skip_item(i,    d, whole) {
    while (tok[i] == "#") {
        for (d = 0; i <= nr; i++) {
            if (tok[i] == "[") d++
            if (tok[i] == "]" && --d == 0) break
        }
        i++
    }
    whole = tok[i] in item
    for (d = 0; i <= nr; i++) {
        if (tok[i] ~ /^[[({]$/) d++
        if (tok[i] ~ /^[])}]$/ && --d < 0) return i - 1
        if (d == 0 && (tok[i] == "}" || tok[i] == ";" || (tok[i] == "," && !whole))) return i
    }
    return nr
}

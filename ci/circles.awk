# Reads all Rust files of one crate and says which of its modules stand in a
# circle. `ci/floors`, which names the rule, calls this behind `ci/rust.awk` with
#   src  the path, with a final /, of the crate's source
# A circle is one line, `src: circle of modules: a (path:line) > b (path:line) > a`; at
# such a place a module names the next.
#
# A module is a file here; what is inline in a file is the file's. Files are lexed
# one behind the other, then walked three times:
#   1  modules, and which of them are for tests alone
#   2  what `use` binds, so that a name is followed to the file it comes from
#   3  the names: those in `use`, and the paths in code
# In each directory, then, its files and directories are held against each other; a
# directory names what a file in it names. The directory's own file (`mod.rs`; at the
# crate's root `lib.rs` or `main.rs`) is one of them, `self`: it may declare its parts
# and show them to others by `pub use`, and names a part if its own code does.
#
# Not seen: what a `*` brings in, and methods, which no path names.

FNR == 1 { file[++nr_files] = FILENAME; from[nr_files] = nr + 1; begin_file() }
{ lex($0) }
END {
    from[nr_files + 1] = nr + 1
    for (f = 1; f <= nr_files; f++) {
        module[f] = module_of(file[f])
        is_file[module[f]] = 1
        for (m = module[f]; m != "crate"; m = parent(m)) is_module[m] = 1
    }
    is_file["crate"] = 1
    for (pass = 1; pass <= 3; pass++)
        for (f = 1; f <= nr_files; f++)
            if (!tested(module[f])) walk(f)
    for (s = 1; s <= nr_shown; s++) {
        split(shown[s], field, "\t")
        if ((field[1], field[2]) in said_at)
            names(field[1], field[3], said_at[field[1], field[2]])
    }
    for (n = 1; n <= nr_nodes; n++) circle(node[n])
}

function module_of(path) {
    path = substr(path, length(src) + 1)
    sub(/\.rs$/, "", path); sub(/(^|\/)(mod|lib|main)$/, "", path)
    gsub(/\//, "::", path)
    return path == "" ? "crate" : "crate::" path
}

function place_of(i) { return substr(file[f], length(src) + 1) ":" line[i] }

function parent(m) { return sub(/::[^:]*$/, "", m) ? m : "crate" }

# Is the module, or one that it is in, for tests alone?
function tested(m) {
    for (; m != "crate"; m = parent(m)) if (m in for_test) return 1
    return 0
}

# A file's tokens; `here` is the module that token i is in.
function walk(f,    i, j, d, here, outer) {
    here = module[f]; d = 0
    for (i = from[f]; i < from[f + 1]; i++) {
        if (tok[i] == "#" && tok[i + 1] == "[" && tok[i + 2] == "cfg" && for_tests(i)) {
            for (j = skip_item(i); i < j; i++)
                if (tok[i] == "mod") for_test[here "::" tok[i + 1]] = 1
        } else if (tok[i] == "mod" && tok[i + 2] == ";") {
            i += 2
        } else if (tok[i] == "mod" && tok[i + 2] == "{") {
            outer[++d] = here
            here = here "::" tok[i + 1]
            is_module[here] = 1
            i += 2
        } else if (tok[i] == "{") {
            d++
        } else if (tok[i] == "}") {
            if (d in outer) { here = outer[d]; delete outer[d] }
            d--
        } else if (tok[i] == "use" && tok[i + 1] != "<") {
            # `)` can only be that of `pub(...)` here.
            public = tok[i - 1] == "pub" || tok[i - 1] == ")"
            i = tree(i + 1, "", here)
        } else if (pass == 3 && tok[i] ~ /^[A-Za-z_]/ && tok[i - 1] != "." && tok[i - 1] != "::") {
            i = path_at(i, here)
        }
    }
}

# A tree of `use` behind a path; returns its last token.
function tree(i, path, here,    last) {
    if (tok[i] == "::") i++
    for (;; i += 2) {
        if (tok[i] == "{") {
            for (i++; tok[i] != "}" && i <= nr; i++)
                if (tok[i] != ",") i = tree(i, path, here)
            return i
        }
        last = tok[i]
        if (last != "self" || path == "") path = path == "" ? last : path "::" last
        else { last = path; sub(/.*::/, "", last) }
        if (tok[i + 1] != "::") break
    }
    if (tok[i + 1] == "as") { i += 2; last = tok[i] }
    used(path, last, place_of(i), here)
    return i
}

# What a `use` binds: a module bound for this file alone is named where it is used.
function used(path, name, at, here,    to) {
    if (pass == 2 && path != name && name != "*") bound[here, name] = path
    if (pass != 3) return
    sub(/::\*$/, "", path)
    to = resolve(path, here, 0)
    if (!public) { if (to ~ /\./ || name == "*") names(here, to, at) }
    else if (index(to, here "::") != 1) names(here, to, at)
    else shown[++nr_shown] = here "\t" name "\t" to
}

# A name or path in code; returns its last token.
function path_at(i, here,    path, at) {
    path = tok[i]; at = place_of(i)
    if (!((here, path) in said_at)) said_at[here, path] = at
    while (tok[i + 1] == "::" && tok[i + 2] ~ /^[A-Za-z_]/) { i += 2; path = path "::" tok[i] }
    if (path ~ /::/) names(here, resolve(path, here, 0), at)
    return i
}

# The module that a path leads to, or `module.item`; nothing if it leaves the crate.
function resolve(path, here, depth,    part, n, i, at) {
    n = split(path, part, "::")
    if (depth > 8) return ""
    at = here
    for (i = 1; i <= n; i++) {
        if (part[i] == "crate") at = "crate"
        else if (part[i] == "super") at = parent(at)
        else if (part[i] == "self") continue
        else if ((at "::" part[i]) in is_module) at = at "::" part[i]
        else if ((at, part[i]) in bound) {
            at = resolve(bound[at, part[i]], at, depth + 1)
            if (at == "" || at ~ /\./) return at
        } else return i == 1 ? "" : at "." part[i]
    }
    return at
}

# One module names another: an edge in the directory in which they part.
function names(a, b, at,    x, y, na, nb, k, dir) {
    sub(/\..*/, "", b)
    if (b == "" || tested(b)) return
    while (!(a in is_file)) a = parent(a)
    while (!(b in is_file)) b = parent(b)
    if (a == b) return
    na = split(a, x, "::"); nb = split(b, y, "::")
    for (k = 1; k < na && k < nb && x[k + 1] == y[k + 1]; k++) dir = dir y[k + 1] "/"
    a = add_node(dir, k < na ? x[k + 1] : "self")
    b = add_node(dir, k < nb ? y[k + 1] : "self")
    if ((a, b) in place) return
    place[a, b] = at
    next_of[a, ++nr_next[a]] = b
}

function add_node(dir, name) {
    name = dir "\t" name
    if (!(name in number)) { node[++nr_nodes] = name; number[name] = nr_nodes }
    return name
}

# The shortest way from a module back to itself, if there is one.
function circle(start,    queue, head, tail, at, to, k, before, text) {
    if (start in told) return
    queue[tail = 1] = start
    for (head = 1; head <= tail; head++) {
        at = queue[head]
        for (k = 1; k <= nr_next[at]; k++) {
            to = next_of[at, k]
            if (to == start) break
            if (!(to in before)) { before[to] = at; queue[++tail] = to }
        }
        if (k <= nr_next[at]) break
    }
    if (head > tail) return
    text = name_of(start)
    for (to = start; ; at = before[at]) {
        text = name_of(at) " (" place[at, to] ") > " text
        told[at] = 1
        if (at == start) break
        to = at
    }
    print substr(src, 1, length(src) - 1) ": circle of modules: " text
}

function name_of(n) { sub(/\t/, "", n); return n }

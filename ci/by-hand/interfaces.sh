# Sourced by `ci/interfaces-by-hand`: what a build offers to people and to programs, one thing a
# line, the kind of thing first. Inputs of all calls are those of this tree ($ROOT), so that two
# builds are asked the same. $TREE is where the build's headers and sources are, $BUILD where its
# command and libraries are, $SCRATCH takes what the calls write.

libraries=(malloc engines kmem recorder)
DATA=crates/lab/tests/data
TRACES=crates/lab/traces

ours() { "$BUILD/slabyard" "$@" </dev/null; }

# all_of_it: everything, sorted.
all_of_it() {
    {
        commands ''
        json_keys
        columns
        symbols
        declarations
        formats
        exit_codes
        environment
    } | sort -u
}

# commands "NAME...": what a command's help tells, and that of all commands below it.
commands() {
    local help=$SCRATCH/help name
    # shellcheck disable=SC2086 # A command's name may be two words.
    ours $1 --help >"$help" 2>&1 || { echo "command $1: no help"; return; }
    [ -z "$1" ] || echo "command $1"
    awk -v command="${1:-slabyard}" "$help_words" "$help"
    for name in $(sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\)\( .*\|$\)/\1/p' "$help"); do
        [ "$name" = help ] || commands "${1:+$1 }$name"
    done
    # Left out of the list, and there.
    [ -n "$1" ] || commands man
}

# Options and arguments with the words that they take, and the rows of the tables behind them, of
# which those of settings have words of their own.
help_words='
    function words(of, text,   parts, n, i) {
        gsub(/[`,]|\(.*\)/, " ", text)
        n = split(text, parts, " ")
        for (i = 1; i <= n; i++) if (parts[i] != "or" && parts[i] != "to") print "word " command " " of " " parts[i]
    }
    /^[A-Z][^:]*:$/ || /^Keys .*:$/ {
        section = $0
        sub(/ \(.*/, "", section); sub(/:$/, "", section)
        next
    }
    section == "Arguments" && /^  [<\[]/ {
        what = $1; sub(/^  */, "", $0)
        match($0, /[>\]](\.\.\.)?( |$)/)
        what = substr($0, 1, RSTART + RLENGTH - 1); sub(/ +$/, "", what)
        print "argument " command " " what
    }
    section == "Options" && /^  (    )?-[a-zA-Z-]/ {
        what = ""
        if (match($0, /--[a-z][a-z-]*/)) what = substr($0, RSTART, RLENGTH)
        value = $0 ~ /--[a-z-]+\[?[= ]?[=<\[]/ ? " with a value" : ""
        if (match($0, /^ +-[a-zA-Z]/)) {
            letter = $0; sub(/^ +/, "", letter); letter = substr(letter, 1, 2)
            print "option " command " " letter value
            if (what == "") what = letter
        }
        print "option " command " " what value
    }
    (section == "Arguments" || section == "Options") && /^ +- [a-z0-9.-]+(:|$)/ {
        word = $2; sub(/:$/, "", word); print "word " command " " what " " word
    }
    match($0, /\[possible values: [^\]]*/) { words(what, substr($0, RSTART + 18, RLENGTH - 18)) }
    match($0, /\[default: [^\]]*\]/) && section != "" { print "default " command " " what " " substr($0, RSTART + 10, RLENGTH - 11) }
    match($0, /\[env: [A-Z_]+/) { print "environment " substr($0, RSTART + 6, RLENGTH - 6) " for " command " " what }
    section != "Arguments" && section != "Options" && section != "Commands" && /^  [a-z_0-9A-Z]+\*?: / {
        row = $1; sub(/\*?:$/, "", row)
        if (section ~ /^Examples/) next
        print "row " command ": " section ": " row
        if (section !~ /^Keys/) next
        takes = $0; sub(/^[^:]*: */, "", takes)
        if (sub(/^one of /, "", takes)) words(row, takes)
        else while (match(takes, /`[^`]+`/)) {
            print "word " command " " row " " substr(takes, RSTART + 1, RLENGTH - 2)
            takes = substr(takes, RSTART + RLENGTH)
        }
    }'

# keys NAME: the paths of keys in the JSON on standard input, whatever the numbers in them are.
keys() {
    jq -r 'paths | map(if type == "number" then "[]" elif test("^[0-9]+$") then "N" else tostring end) | join(".")' \
        2>/dev/null | sort -u | sed "s/^/json $1: /"
}

# json_keys: of each command that writes JSON, on inputs of this tree and on a program that rests.
json_keys() {
    local before=$DATA/hackbench.before.json.zst after=$DATA/hackbench.after.json.zst
    local trace=$TRACES/hackbench.slabtrace pid
    ours list crates/observe/tests/data/v1.json.zst --json | keys "list of a snapshot"
    ours list kernel --json | keys "list of the kernel"
    ours list "$before" --orders --json | keys "list --orders"
    ours show "$before" 'kmalloc-*' --json | keys show
    ours diff "$before" "$after" --json | keys diff
    ours geometry --json --release 6.12 --page-size 4k --cpus 4 192 4k | keys geometry
    ours geometry --json --engine slab --page-size 4k --cpus 4 192 | keys "geometry --engine slab"
    ours geometry --json --against "$before" | keys "geometry --against"
    ours replay "$trace" --json | keys replay
    ours replay "$trace" --json --samples 4 --memory 64M | keys "replay --memory"
    ours replay "$trace" --json --memory 1M | keys "replay --memory, too little"
    ours replay "$trace" --json --check | keys "replay --check"
    ours replay "$trace" --json --contention=2 | keys "replay --contention"
    ours replay "$trace" --json --engine slab | keys "replay --engine slab"
    ours replay "$trace" --json --engine tiny | keys "replay --engine tiny"
    ours replay "$trace" --json --engine slob | keys "replay --engine slob"
    ours replay "$trace" --json --page-size 64k --cpus 16 | keys "replay on another machine"
    ours trace info "$trace" --json | keys "trace info"
    ours trace info "$TRACES/lists_6.18.slabtrace" --json | keys "trace info of lists"
    ours small --json --seeds 1 | keys small
    ours small --json --seeds 1 --memory 5M | keys "small of too little"
    ours compare --json "$trace" --with 5.9 --with tiny | keys "compare of a trace"
    ours compare --json --rounds 1 --with slub --with slab -- true | keys "compare of a program"
    ours run --report json -- true | keys run
    ours run --report json --engine slab -- true | keys "run --engine slab"
    ours run --report json --set front=cpu-slabs -- true | keys "run of CPU slabs"
    ours run --report json --slab-debug --set count=1 -- true | keys "run --slab-debug"
    "$BUILD/slabyard" run --report none --observable -- sleep 60 </dev/null &
    pid=$(child_of $!)
    ours list "$pid" --json | keys "list of a process"
    ours show "$pid" malloc-64 --json | keys "show of a process"
    ours snapshot "$pid" --slabs -o - | keys "snapshot --slabs"
    ours shrink "$pid" --json | keys shrink
    kill "$pid"
    ours replay "$trace" --save "$SCRATCH/saved.json" >"$SCRATCH/said"
    keys "replay --save" <"$SCRATCH/saved.json"
    ours record -o "$SCRATCH/own.slabtrace" -- true
    ours trace info "$SCRATCH/own.slabtrace" --json | keys "trace info of a recording"
}

# child_of PID: its first child, once it is there and has become another program.
child_of() {
    local child tries
    for ((tries = 0; tries < 200; tries++)); do
        child=$(pgrep -P "$1" -x sleep) && sleep 0.2 && echo "$child" && return
        sleep 0.05
    done
}

# columns: CSV's head, OpenMetrics' series, and the fields that can be sorted by.
columns() {
    ours list "$DATA/hackbench.before.json.zst" --csv | head -n 1 | tr ',' '\n' | sed 's/^/column /'
    ours export "$DATA/hackbench.before.json.zst" | awk '$2 == "TYPE" { print "series " $3 " " $4 }'
    ours run --report none -- "$BUILD/slabyard" export "$DATA/hackbench.after.json.zst" |
        awk '$2 == "TYPE" { print "series " $3 " " $4 }'
}

# symbols: those that each library exports, and which of them the static one has, too.
symbols() {
    local name file
    for name in "${libraries[@]}"; do
        file=$BUILD/libslabyard_$name.so
        nm -D --defined-only "$file" | awk -v name="$name" '{ print "symbol " name " " $3 }' | tee "$SCRATCH/shared"
        [ -e "${file%.so}.a" ] || continue
        nm -g --defined-only "${file%.so}.a" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$SCRATCH/static"
        awk '{ print $3 }' "$SCRATCH/shared" | sort -u | comm -12 - "$SCRATCH/static" | sed "s/^/symbol $name.a /"
    done
}

# declarations: the C headers', one a line, without what they include and without bodies.
declarations() {
    local header
    for header in "$TREE"/include/*.h; do
        cc -E -dD -I"$TREE/include" "$header" |
            awk -v header="$header" -v name="$(basename "$header")" '
                /^# [0-9]+ "/ { inside = $3 == "\"" header "\""; next }
                !inside { next }
                /^#define/ { sub(/\(.*| .*/, "", $2); print "define " name " " $2; next }
                /^#/ { next }
                { text = text " " $0 }
                END {
                    depth = 0
                    for (i = 1; i <= length(text); i++) {
                        c = substr(text, i, 1)
                        if (c == "{") { depth++; body = is_type(line) }
                        if (depth == 0 || body || c == "{") line = line c
                        if (c == "}" && --depth == 0 && !body) { line = line "}"; c = ";" }
                        if (c == ";" && depth == 0) { say(line); line = "" }
                    }
                }
                function is_type(line) { return line !~ /\)[^)]*$/ }
                function say(line) { gsub(/[ \t]+/, " ", line); sub(/^ /, "", line); print "declaration " name " " line }'
    done
}

# head_of FILE: magic and version.
head_of() { od -An -c -N 12 "$1" | tr -s ' ' | sed 's/^ //'; }

# formats: what begins the files and the region that this build makes, and which kept files it reads.
formats() {
    local trace=$TRACES/hackbench.slabtrace pid made
    ours replay "$trace" --convert "$SCRATCH/made.slabtrace" >"$SCRATCH/said"
    echo "format trace begins $(head_of "$SCRATCH/made.slabtrace")"
    ours snapshot "$DATA/hackbench.before.json.zst" -o "$SCRATCH/made.json"
    jq -r 'to_entries[] | select(.key | test("format|version|slabyard")) | "format snapshot \(.key)=\(.value)"' "$SCRATCH/made.json"
    "$BUILD/slabyard" run --report none --observable -- sleep 60 </dev/null &
    pid=$(child_of $!)
    region_of "$pid"
    kill "$pid"
    for made in crates/lab/tests/trace/v1.slabtrace crates/lab/tests/trace/slab_61.csv.zst "$TRACES"/*.slabtrace; do
        ours trace info "$made" >"$SCRATCH/said" 2>&1 && echo "format reads $(basename "$made")"
    done
    for made in crates/observe/tests/data/v1.json.zst $DATA/*.json.zst $DATA/*.slabinfo.zst; do
        ours list "$made" >"$SCRATCH/said" 2>&1 && echo "format reads $(basename "$made")"
    done
}

# region_of PID: the begin of the mapping that a yard's header is in, and its version.
region_of() {
    local range mode rest
    while read -r range mode rest; do
        [[ $mode == rw-p ]] || continue
        dd if="/proc/$1/mem" bs=4096 count=1 iflag=skip_bytes,count_bytes skip=$((16#${range%-*})) count=24 \
            of="$SCRATCH/page" 2>/dev/null || continue
        [ "$(head -c 13 "$SCRATCH/page")" = "slabyard yard" ] || continue
        echo "format region version $(od -An -t u8 -j 16 -N 8 "$SCRATCH/page" | tr -d ' ')"
    done <"/proc/$1/maps" | sort -u
}

# exit_codes: a table of calls, at least one for each code that a command's help names.
exit_codes() {
    local call
    while read -r call; do
        [ -n "$call" ] || continue
        # shellcheck disable=SC2086 # A line is a call with its arguments.
        timeout 60 "$BUILD/slabyard" $call </dev/null >"$SCRATCH/said" 2>&1
        echo "exit $? slabyard $call"
    done <<TABLE
--version
--help

bogus
list $DATA/hackbench.before.json.zst
list no-such-file
list --bogus
list $DATA/hackbench.before.json.zst --sort bogus
list $DATA/README.md
list 1
show $DATA/hackbench.before.json.zst dentry
show $DATA/hackbench.before.json.zst no_such_cache
show
diff $DATA/hackbench.before.json.zst $DATA/hackbench.before.json.zst
diff $DATA/hackbench.before.json.zst $DATA/hackbench.after.json.zst
diff $DATA/hackbench.before.json.zst no-such-file
diff $DATA/hackbench.before.json.zst
export $DATA/hackbench.before.json.zst
export --top x
export no-such-file
snapshot $DATA/hackbench.before.json.zst -o $SCRATCH/one.json
snapshot $DATA/hackbench.before.json.zst
snapshot $DATA/hackbench.before.json.zst -o /no-such-directory/file
shrink $DATA/hackbench.before.json.zst
shrink 1
shrink
set kernel no_such_cache min_partial=1
set kernel
set 1 malloc-64 min_partial=1
validate 1
validate
geometry 192
geometry --release 1.0 192
geometry --against $DATA/hackbench.before.json.zst
geometry --against no-such-file
geometry --against $DATA/p64k_mo1_smp16_hb.json.zst --release 6.12 --set max_order=3
replay $TRACES/hackbench.slabtrace
replay $TRACES/hackbench.slabtrace --set bogus=1
replay $TRACES/hackbench.slabtrace --set front=cpu_slabs
replay $TRACES/hackbench.slabtrace --set front=cpu-slabs
replay $TRACES/hackbench.slabtrace --check
replay $TRACES/hackbench.slabtrace --check --set max_order=0
replay $TRACES/hackbench.slabtrace --memory 1M
replay no-such-file
replay $DATA/README.md
replay
small --seeds 1
small --memory 5M --seeds 1
small --memory x
small --events no-such-file
trace info $TRACES/hackbench.slabtrace
trace info $DATA/README.md
trace info
trace cut $TRACES/hackbench.slabtrace -o $SCRATCH/cut.slabtrace --to 1
trace cut $TRACES/hackbench.slabtrace
trace merge $TRACES/guest_4.slabtrace $TRACES/guest_16.slabtrace -o $SCRATCH/merged.slabtrace
trace anonymise $TRACES/hackbench.slabtrace -o $SCRATCH/anonymous.slabtrace
compare $TRACES/hackbench.slabtrace --with 5.9 --with 6.12
compare $TRACES/hackbench.slabtrace --with bogus
compare --rounds 1 --with slub -- false
compare --rounds 1 -- no-such-program
compare
run -- true
run -- false
run -- no-such-program
run -- $DATA/README.md
run -- sh -c exit\${IFS}7
run --engine bogus -- true
run --set colour=blue -- true
run --set decay_ms=soon -- true
run --set reclaim=2.4 -- true
run --report-file /no-such-directory/file -- true
run
record -o $SCRATCH/recorded.slabtrace -- true
record -o $SCRATCH/recorded.slabtrace -- false
record -o /no-such-directory/file -- true
record
completions bash
completions bogus
man
top no-such-process
TABLE
}

# environment: the variables that the build's sources name and those of the keys of `run --set`, and of
# each library those whose value it refuses.
environment() {
    local name library
    {
        grep -rhoE '"SLABYARD_[A-Z_]+"' "$TREE"/crates/{abi,cli,engines,kmem,malloc,observe,recorder}/src \
            "$TREE"/crates/process/src 2>/dev/null | tr -d '"'
        ours run --help | sed -n '/^Keys of --set:/,/^$/s/^  \([a-z_]*\):.*/SLABYARD_\U\1/p'
        ours run --help | grep -oE '\[env: SLABYARD_[A-Z_]+' | sed 's/.* //'
    } | sort -u | tee "$SCRATCH/variables" | sed 's/^/environment /'
    while read -r name; do
        for library in malloc engines recorder; do
            env -C "$SCRATCH" "$name=:" LD_PRELOAD="$BUILD/libslabyard_$library.so" true 2>&1 | grep -q "$name" &&
                echo "environment $name is refused by $library"
        done
    done <"$SCRATCH/variables"
}

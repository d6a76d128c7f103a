# Sourced after checks.sh by scripts that run programs without the library and
# with it: what a program prints, and how it ends, must be the same.
# Uses $SLABYARD, $SCRATCH and $LIMIT_S.

# in_fresh DIR COMMAND...: runs it in a new directory; its output and its end
# are the files out and code beside.
in_fresh() {
    local dir=$1
    shift
    rm -rf "$dir" && mkdir -p "$dir/work"
    # The braces take the shell's own word on a killed child.
    { (cd "$dir/work" && timeout -k 5 "$LIMIT_S" "$@") </dev/null >"$dir/out" 2>&1; } 2>/dev/null
    echo "exit code $?" >"$dir/code"
}

# same WANT GOT: are output and end the same? Says what differs.
same() { diff "$1/out" "$2/out" && diff "$1/code" "$2/code"; }

# compare NAME SETTINGS... -- COMMAND...: without the library once, then with
# it once for each settings.
compare() {
    local name=$1 settings=() set start
    shift
    while [ "$1" != -- ]; do settings+=("$1") && shift; done
    shift
    in_fresh "$SCRATCH/plain" "$@"
    # Two runs that fail alike prove nothing.
    if ! grep -qx 'exit code 0' "$SCRATCH/plain/code"; then
        tail -n 5 "$SCRATCH/plain/out"
        fail "$name: does not run without the library either"
        return
    fi
    for set in "${settings[@]}"; do
        start=$(now_ms)
        # shellcheck disable=SC2086 # Settings are words.
        in_fresh "$SCRATCH/under" env $set "$SLABYARD" run --report none -- "$@"
        if same "$SCRATCH/plain" "$SCRATCH/under" >"$SCRATCH/difference"; then
            pass "$name${set:+ with $set} ($(seconds_since "$start"))"
        else
            head -n 20 "$SCRATCH/difference"
            fail "$name${set:+ with $set} ($(seconds_since "$start"))"
        fi
    done
}

# Sourced by the scripts of this directory: how a check reports, and where the
# build is.
#
# A script prints one line a check, `PASS name`, `FAIL name` or
# `skipped: reason`, and ends with `finish`, which exits 1 if a check failed.
# `.ci/run` counts these lines, so nothing else may print them.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$ROOT/target}
# The command that checks run, beside the libraries: what `ci/build` made, else a release build.
BUILT=$CARGO_TARGET_DIR/ci
[ -x "$BUILT/slabyard" ] || BUILT=$CARGO_TARGET_DIR/release
# What is tested: cargo's arguments, and where it is. Always all crates: features of what crates use
# are those that all chosen ones ask for, and what has others would be built again.
# The compiler lints as it goes, which takes a fraction of a second reading of everything; `ci/clippy`
# looks at what it said.
linted=()
! clippy-driver --version >/dev/null 2>&1 || linted=(--config 'build.rustc-workspace-wrapper="'"$ROOT"'/ci/compiler"')
# The engine and its model, which are tested with the engine's own assertions; and without, what is about
# instructions.
ENGINE='-p slabyard-platform -p slabyard -p slabyard-fixed -p slabyard-shrinker -p slabyard-page-lists -p slabyard-model -p slabyard-testkit'
# shellcheck disable=SC2206 # Words.
asserted=("${linted[@]}" --profile asserted $ENGINE)
unasserted=("${linted[@]}" --profile tested -p slabyard-platform -p slabyard --test platform_contract --test sequences --test inlined)
# The modelled machines, with more seeds than a machine with assertions has time for.
[ -z "${LONG-}" ] || unasserted+=(--test machine)
# shellcheck disable=SC2206 # Words.
tested=("${linted[@]}" --profile tested --workspace ${ENGINE//-p /--exclude })
# What compares with other allocators, and compiles these.
[ -n "${LONG-}" ] || tested+=(--exclude slabyard-bench)
TESTED=$CARGO_TARGET_DIR/tested
# Output that depends on the reader's language cannot be compared.
export LC_ALL=C.UTF-8

nr_failed=0

pass() { echo "PASS $*"; }
fail() { echo "FAIL $*"; nr_failed=$((nr_failed + 1)); }
skip() { echo "skipped: $*"; }
finish() { exit $((nr_failed > 0)); }

has() { command -v "$1" >/dev/null 2>&1; }

# need PROGRAM: true if it is there, else says that it is not.
need() { has "$1" || { skip "$1 is not installed"; return 1; }; }

# now_ms: wall time; seconds_since MS: the time since then, as "1.2 s".
now_ms() { echo $(($(date +%s%N) / 1000000)); }
seconds_since() {
    local ms=$(($(now_ms) - $1))
    echo "$((ms / 1000)).$((ms % 1000 / 100)) s"
}

# step NAME COMMAND...: one check that passes if the command does.
step() {
    local name=$1 start
    shift
    start=$(now_ms)
    if "$@"; then pass "$name ($(seconds_since "$start"))"; else fail "$name"; fi
}

# tested_program NAME: builds a program as the tests do; with one of them, whose features then count.
tested_program() { cargo build --quiet "${tested[@]}" --test abi --bin "$1"; }

# xtask ARGUMENT...: ends as the program of the house rules does, whose lines are those of a script.
xtask() {
    cd "$ROOT" && cargo build --quiet "${tested[@]}" --bin xtask || { fail "xtask does not build"; finish; }
    exec "$TESTED/xtask" "$@"
}

# libraries_beside DIR: the libraries of the release build, beside the programs of another.
libraries_beside() {
    cargo build --release -p slabyard-malloc -p slabyard-engines -p slabyard-recorder &&
        mkdir -p "$1" && ln -sf ../release/libslabyard_{malloc,engines,recorder}.so "$1"
}

# scratch: makes a directory that goes when the script ends, and says its name
# in $SCRATCH.
scratch() {
    SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/slabyard-ci.XXXXXX") || exit 1
    trap 'rm -rf "$SCRATCH"' EXIT
}

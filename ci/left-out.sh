# Sourced by the scripts that run tests: which of them only LONG=1 runs.

# Of a program whose tests end with the name of a mode or an engine: its crate and name, the usual one, and
# the others, of which each test is in one, dealt over the tests. What is there twice is dealt twice as often.
dealt_programs='
malloc.malloc    rseq slots slots own_rseq slab_rseq slob_rseq tiny_rseq slab_slots tiny_slots
slabyard.machine slub cpu_slabs cpu_slabs debug mixed slab slob slab_on_nodes slub_on_nodes tiny'

# long_tests: the names in `ci/long-tests.txt`.
long_tests() { sed -n 's/^\([^#][^ ]*\).*/\1/p' "$ROOT/ci/long-tests.txt"; }

# left_out CRATE.NAME <TESTS: of the tests of a program those that are left out. Misuse of malloc is the same
# in each mode, and is dealt over all of them.
left_out() {
    local tests
    tests=$(cat)
    grep -xF -f <(long_tests) <<<"$tests"
    awk -v program="$1" '$1 == program { $1 = ""; print }' <<<"$dealt_programs" | awk '
        NR == FNR { usual = $1; for (i = 2; i <= NF; i++) times[$i]++; next }
        { kind = $0; sub(/.*::/, "", kind); test = substr($0, 1, length($0) - length(kind)) }
        kind == usual && test ~ /^misuse::/ { times[kind] = 1 }
        kind == usual && test !~ /^misuse::/ || !(kind in times) { next }
        { if (!(test in count)) order[++nr] = test
          for (i = 0; i < times[kind]; i++) of[test, count[test]++] = kind }
        END {
            for (i = 1; i <= nr; i++) {
                test = order[i]
                kept = of[test, i % count[test]]
                for (k = 0; k < count[test]; k++)
                    if (of[test, k] != kept && !left[test of[test, k]]++) print test of[test, k]
            }
        }' - <(echo "$tests")
}

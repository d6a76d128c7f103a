# Sourced by `ci/arm64-by-hand`, behind `places.sh`: the tests of all crates, which this machine compiled.
#
# A program CRATE.NAME of work/tests runs in the root, where it is fast, or, if one of $KERNEL_TESTS, in the
# guest. What fails in the root, or says there that it did not run, runs again in the guest, which decides.
#
# log/units/PROGRAM.said has what a program says; log/units/PROGRAM has `PLACE VERDICT TEST` a line, of which a
# test's last one is in force. What is in force is not run again until the next build: the step ends after
# $LIMIT_S seconds in each place, and goes on when it is called again.

# What is about restartable sequences, other processes, or the kernel.
KERNEL_TESTS='platform.* slabyard.linux slabyard.global slabyard.inlined slabyard.stress process.* malloc.*
    kmem.* engines.* recorder.* owners.*'

# matches PROGRAM PATTERN...: one of these, or its crate's name?
matches() {
    local program=$1 pattern
    shift
    for pattern; do
        # shellcheck disable=SC2254 # They are patterns.
        case $program in $pattern | $pattern.*) return 0 ;; esac
    done
    return 1
}

# list_tests: the names of each program's tests that `ci/unit` runs, or with LONG=1 of all, and no verdicts yet.
list_tests() {
    local program
    rm -rf work/lists work/units.* log/units && mkdir -p work/lists log/units
    for program in work/tests/*; do
        program=${program##*/}
        QEMU_CPU=$PROCESSOR ./qemu -L root "work/tests/$program" --list 2>/dev/null | sed -n 's/: test$//p' \
            >"work/lists/$program" || return 1
        [ -z "${LONG-}" ] || continue
        left_out "$program" <"work/lists/$program" >work/left-out
        grep -vxF -f work/left-out "work/lists/$program" >work/kept
        mv work/kept "work/lists/$program"
    done
    find work/lists -empty -delete
}

# to_run PLACE PROGRAM: the tests that it has to run there.
to_run() {
    local of_kernel=0
    # shellcheck disable=SC2086 # Patterns are words.
    ! (set -f && matches "$2" $KERNEL_TESTS) || of_kernel=1
    touch "log/units/$2"
    awk -v here="$1" -v of_kernel=$of_kernel -v verdicts="log/units/$2" '
        BEGIN {
            while ((getline < verdicts) > 0) {
                place[$3] = $1
                is_good[$3] = $2 == "ok" || $2 == "ignored"
            }
        }
        here == "root" && !of_kernel && !($1 in place) ||
        here == "guest" && of_kernel && place[$1] != "guest" ||
        here == "guest" && !of_kernel && place[$1] == "root" && !is_good[$1]' "work/lists/$2"
}

# verdicts PLACE ENDED LIST <WHAT IT SAID: of each test of the list. One that passed and says that it did not run has
# `not-run`; one without a result `unfinished`, but nothing if its time was over.
verdicts() {
    awk -v place="$1" -v ended="$2" '
        NR == FNR { asked[$1]; next }
        /^test .* \.\.\. / {
            test = $2
            # Other words of the test can stand between.
            if (match($0, /(ok|FAILED)$/)) said[test] = substr($0, RSTART)
            else if (/ \.\.\. ignored/) said[test] = "ignored"
        }
        /^---- .* stdout ----$/ { of = $2 }
        /^(failures|successes):$/ { of = ""; list = $1 == "failures:" ? "FAILED" : "ok" }
        # Where a process that the test started wrote into the line of its verdict.
        /^    [^ ]+$/ && $1 in asked { listed[$1] = list }
        /not run: |^skipped: / && said[of] == "ok" { said[of] = "not-run" }
        END {
            for (test in listed) if (!(test in said)) said[test] = listed[test]
            for (test in asked)
                if (test in said) print place, said[test], test
                else if (ended != 124 && ended != 137) print place, "unfinished", test
        }' "$3" -
}

# take PLACE: the verdicts of what ran there, also of a step that was ended before it took them.
take() {
    local place=$1 program ended said
    for said in work/units."$place"/*.said; do
        [ -e "$said" ] || continue
        program=${said##*/} program=${program%.said}
        ended=$(cat "work/units.$place/$program.ended" 2>/dev/null || echo 124)
        verdicts "$place" "$ended" "work/units.$place/$program.list" <"$said" >>"log/units/$program"
        { echo "== in the $place, ended with $ended" && cat "$said"; } >>"log/units/$program.said"
        rm "$said"
    done
}

# run_in PLACE: what the chosen programs have to run there.
run_in() {
    local place=$1 program
    take "$place"
    rm -rf "work/units.$place" && mkdir -p "work/units.$place"
    for program in work/lists/*; do
        program=${program##*/}
        # shellcheck disable=SC2086 # Patterns are words.
        (set -f && matches "$program" ${UNITS:-*}) && to_run "$place" "$program" >"work/units.$place/$program.list" &&
            [ -s "work/units.$place/$program.list" ] && echo "$program"
    done >work/units.$place/programs
    [ -s work/units.$place/programs ] || return 0
    cat >work/units.$place/run <<RUN
begun=\$SECONDS
export STRESS_OPS=$CALLS TESTS_SLOWER=10
while read -r program; do
    left=\$(($LIMIT_S - SECONDS + begun))
    ((left > 5)) || break
    # None keeps all others from running.
    ((left < $LIMIT_S / 4)) || left=$((LIMIT_S / 4))
    cp "/w/tests/\$program" .
    mapfile -t tests <"/w/units.$place/\$program.list"
    # Why a test failed is told when all have run: of so many at once, else the end of the time takes the reasons.
    for ((from = 0, end = SECONDS + left; from < \${#tests[@]}; from += 40)); do
        (cd "$ROOT/crates/\${program%%.*}" && timeout -k 5 \$((end > SECONDS ? end - SECONDS : 1)) \
            "\$OLDPWD/\$program" --exact --show-output "\${tests[@]:from:40}") </dev/null
        code=\$?
        ((code != 124 && code != 137)) || break
    done >"/w/units.$place/\$program.said" 2>&1
    echo "\$code" >"/w/units.$place/\$program.ended"
    echo "\$program: \$(cat "/w/units.$place/\$program.ended")"
    rm "\$program"
done </w/units.$place/programs
RUN
    if [ "$place" = guest ]; then
        in_guest units.guest 4 $((LIMIT_S + 180)) <work/units.$place/run
    else
        in_root units.root $((LIMIT_S + 60)) <work/units.$place/run
    fi
    take "$place"
}

# units_table: what is in force, a crate a line, and the sums; code 1 if there is another than passed and ignored.
units_table() {
    local program
    for program in work/lists/*; do
        program=${program##*/}
        # shellcheck disable=SC2086 # Patterns are words.
        (set -f && matches "$program" ${UNITS:-*}) || continue
        touch "log/units/$program"
        awk -v crate="${program%%.*}" -v verdicts="log/units/$program" '
            BEGIN { while ((getline < verdicts) > 0) said[$3] = $1 " " $2 }
            { print crate, ($1 in said ? said[$1] : "- left"), $1 }' "work/lists/$program"
    done | awk '
        function line(crate) {
            printf "%-12s %8d %8d %8d %8d %8d %8d\n", crate, n[crate, "root ok"], n[crate, "guest ok"],
                n[crate, "FAILED"], n[crate, "ignored"], n[crate, "not-run"], n[crate, "left"]
        }
        function count(crate) {
            n[crate, $2 " " $3]++
            n[crate, $3 == "unfinished" ? "FAILED" : $3]++
        }
        !($1 in crates) { crates[$1]; order[++nr] = $1 }
        { count($1); count("all") }
        $3 !~ /^(ok|ignored)$/ { others[++nr_others] = $0 }
        END {
            printf "%-12s %8s %8s %8s %8s %8s %8s\n", "crate", "ok:root", "ok:guest", "failed", "ignored", "not run", "left"
            for (i = 1; i <= nr; i++) line(order[i])
            line("all")
            for (i = 1; i <= nr_others && i <= 200; i++) print others[i]
            exit nr_others > 0
        }'
}

units() {
    local code
    run_in root
    run_in guest
    units_table >log/units.table
    code=$?
    cat log/units.table >&2
    return $code
}

# units_self_test ENDED VERDICTS: what a program says is judged as it should be.
units_self_test() {
    local said
    said=$(verdicts guest "$1" <(printf '%s\n' sound broken torn skipped killed) <<'SAID'
test broken ... FAILED
test skipped - should panic ... ok
test sound ... ok
test toerror: found
rn ... ok

successes:

---- skipped stdout ----
skipped: there is one CPU

successes:
    skipped
    sound
    torn

failures:
    broken
SAID
    )
    [ "$(sort <<<"$said" | tr '\n' ';')" = "$2" ]
}

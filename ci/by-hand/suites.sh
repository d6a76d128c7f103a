# Sourced by programs-by-hand: the tests that others wrote for their own
# programs, and programs under valgrind.

# Tests of what glibc's own malloc alone promises. Told, not counted:
#   its statistics in its words, an abort where its chunks are overwritten
#   memory that ends at once where the address space is limited after the start
#   a program that defines malloc alone, upon __libc_malloc
LIBC_OWN='malloc\.tst-(malloc-stats-cancellation|malloc-backtrace|tcfree2|dynarray-fail)|posix\.tst-regcomp-bracket-free'

check_libc() {
    local dir=$SCRATCH/libc tarball program="$LOADS/libc-tests.sh"
    tarball=$(ls /usr/src/glibc/glibc-*.tar.xz 2>/dev/null | sort -V | tail -n 1)
    [ -n "$tarball" ] || { skip "the C library's sources (glibc-source) are not installed"; return; }
    need gcc && need xz || return
    mkdir "$dir" && cd "$dir" || return
    bash "$program" build "$tarball" >build.log 2>&1
    cd "$ROOT" || return
    # LIBC_TESTS: only those whose name it matches.
    grep -E "${LIBC_TESTS:-.}" "$dir/list" >"$dir/chosen"
    step "libc: $(wc -l <"$dir/chosen") of $(wc -l <"$dir/sources") tests build alone" test -s "$dir/chosen" || return
    libc_run without "$dir/chosen"
    # Only what passes without us tells anything.
    awk '$2 == 0 { print $1 }' "$dir/without" | sort >"$dir/sound"
    libc_run with "$dir/sound" "$SLABYARD" run --report none --
    awk '$2 != 0 { print $1 }' "$dir/with" | sort >"$dir/again"
    # A busy machine makes tests late, and a deadlock comes now and then: what
    # failed runs three times more, both ways, and fails twice with us, never without.
    if [ -s "$dir/again" ]; then
        sed 'p;p' "$dir/again" >"$dir/thrice"
        libc_run without-again "$dir/thrice"
        libc_run with-again "$dir/thrice" "$SLABYARD" run --report none --
        awk '$2 != 0 { print $1 }' "$dir/without-again" | sort -u >"$dir/unsound"
        awk '$2 != 0 { print $1 }' "$dir/with-again" | sort -u | comm -23 - "$dir/unsound" >"$dir/again"
    fi
    grep -E "$LIBC_OWN" "$dir/again" | sed 's/^/ asks for glibc itself: /'
    grep -vE "$LIBC_OWN" "$dir/again" >"$dir/failed"
    sed 's/^/ fails only with us: /' "$dir/failed"
    step "libc: of $(wc -l <"$dir/sound") tests that pass without us, $(wc -l <"$dir/failed") fail with us" \
        test ! -s "$dir/failed"
}

# libc_run OUT LIST COMMAND...: each test's end, under the command.
libc_run() {
    local out=$1 list=$2
    shift 2
    (cd "$dir" && "$@" bash "$program" run "$list" >"$out" 2>"$out.err")
}

# failed_tests LOG: the names that a run of Python's tests ends with.
failed_tests() {
    awk '/tests? failed( again)?:$/ { on = 1; split("", names); next }
        on && /^    / { for (n = 1; n <= NF; n++) names[$n] = 1; next }
        { on = 0 }
        END { for (n in names) print n }' "$1" | sort
}

check_cpython() {
    need python3 || return
    python3 -c 'import test.regrtest' 2>/dev/null || { skip "Python's test suite is not installed"; return; }
    local modules=(test_array test_asyncio test_atexit test_bigmem test_bytes test_bz2 test_capi
        test_codecs test_collections test_concurrent_futures test_context test_csv test_ctypes
        test_dataclasses test_decimal test_deque test_descr test_dict test_email test_embed
        test_exceptions test_faulthandler test_fileio test_float test_fork1 test_fstring test_functools
        test_gc test_generators test_hashlib test_heapq test_httpservers test_importlib test_io
        test_iter test_itertools test_json test_list test_logging test_long test_lzma test_marshal
        test_mmap test_multiprocessing_fork test_multiprocessing_forkserver test_os test_pickle
        test_posix test_pty test_queue test_random test_re test_regrtest test_sched test_select
        test_selectors test_set test_shelve test_shutil test_signal test_sort test_sqlite3
        test_ssl test_statistics test_str test_struct test_subprocess test_sys test_sys_settrace
        test_tarfile test_tempfile test_thread test_threading test_threading_local test_threadsignals
        test_tracemalloc test_traceback test_tuple test_typing test_unicode test_unittest test_urllib
        test_userdict test_uuid test_venv test_wait4 test_weakref test_xml_etree test_xml_etree_c
        test_zipfile test_zlib)
    [ -z "${PYTHON_TESTS-}" ] || read -ra modules <<<"$PYTHON_TESTS"
    # Only what this Python has.
    mapfile -t modules < <(python3 -c 'import importlib.util, sys
for name in sys.argv[1:]:
    if importlib.util.find_spec("test." + name):
        print(name)' "${modules[@]}")
    # Without a name the suite would run whole.
    ((${#modules[@]})) || { fail "cpython: none of the modules is there"; return; }
    # Small objects come from malloc too; a module that fails is run again.
    local suite=(env PYTHONMALLOC=malloc python3 -m test -j2 -w --timeout 300 "${modules[@]}")
    mkdir "$SCRATCH/python" && cd "$SCRATCH/python" || return
    SLABYARD_VERIFY_AT_EXIT=0 "${suite[@]}" >"$SCRATCH/without" 2>&1 </dev/null
    run "${suite[@]}" >"$SCRATCH/with" 2>&1 </dev/null
    cd "$ROOT" || return
    failed_tests "$SCRATCH/without" >"$SCRATCH/without.failed"
    failed_tests "$SCRATCH/with" >"$SCRATCH/with.failed"
    step "cpython: ran to its end" grep -qE '^(== )?Tests? result: ' "$SCRATCH/with"
    comm -13 "$SCRATCH/without.failed" "$SCRATCH/with.failed" >"$SCRATCH/new"
    [ -s "$SCRATCH/new" ] && tail -n 60 "$SCRATCH/with" && echo "fail only with us:" && cat "$SCRATCH/new"
    step "cpython: ${#modules[@]} modules, $(wc -l <"$SCRATCH/without.failed") fail without us, $(wc -l <"$SCRATCH/with.failed") with us" \
        test ! -s "$SCRATCH/new"
}

check_valgrind() {
    need valgrind || return
    local loads=$ROOT/ci/real-programs
    # valgrind follows the command into the program that it starts.
    under_valgrind() { valgrind --tool=none -q --trace-children=yes "$SLABYARD" run --report none -- "$@"; }
    step "valgrind: true" under_valgrind true
    if has gcc && gcc -O1 -pthread "$loads/queue.c" -o "$SCRATCH/queue"; then
        step "valgrind: threads hand objects on" eval \
            '[ "$(under_valgrind "$SCRATCH/queue")" = "80000 items, 115960000 bytes" ]'
    else
        skip "gcc is not installed"
    fi
    need perl || return
    step "valgrind: perl" eval 'diff <(perl "$loads/table.pl") <(under_valgrind perl "$loads/table.pl")'
}

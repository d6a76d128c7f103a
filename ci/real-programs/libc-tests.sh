# The GNU C library's tests, out of its source package: those which build
# against the installed library alone, from the directories that allocate,
# start threads and processes, or write through streams.
#   libc-tests.sh build TARBALL  makes them in the current directory
#   libc-tests.sh run FILE       runs those of the list FILE and prints how
#                                each ended: 0 passed, 77 does not apply
set -u

# What tests of glibc's own malloc look into: its chunks, its arenas, its
# tunables, or a malloc that they bring along.
own='malloc/(tst-interpose|tst-mtrace|tst-malloc-check|tst-malloc-tcache|tst-safe-linking|tst-mallocstate|tst-compathooks)'
# Need another program to drive them, a terminal, or root's harm.
driven='gdb-attach|printers|-static|-mod[0-9]*$|audit|setuid|setgroups'

build() {
    tar -xf "$1" --wildcards '*/support/*' '*/malloc/*' '*/nptl/*' '*/sysdeps/pthread/*' '*/stdlib/*' '*/posix/*' \
        '*/dlfcn/*' '*/stdio-common/*' '*/libio/*' '*/string/*' '*/include/*' '*/sysdeps/x86_64/stackinfo.h' \
        '*/test-skeleton.c' || return 1
    mv glibc-* source
    mkdir -p include objects bin
    ln -s ../source/support ../source/malloc ../source/test-skeleton.c ../source/sysdeps/x86_64/stackinfo.h include/
    for header in array_length intprops libc-diag libc-pointer-arith; do
        ln -s "../source/include/$header.h" include/
    done
    : >include/config.h
    printf '%s\n' '#define TIMEOUTFACTOR 4' '#define libc_hidden_proto(name)' '#define attribute_hidden' \
        '#define _(text) text' '#include <limits.h>' >include/settings.h
    local dir
    for dir in SRCDIR OBJDIR INSTDIR LIBDIR BINDIR SBINDIR COMPLOCALEDIR SYSCONFDIR ROOTSBINDIR ROOTLIBDIR ROOTLIB \
        SLIBDIR; do
        echo "#define ${dir}_PATH \"$PWD/none\"" >>include/settings.h
    done
    echo '#define OBJDIR_ELF_LDSO_PATH "/lib64/ld-linux-x86-64.so.2"' >>include/settings.h
    # What does not build is left out; whether enough is left, the check tells.
    cat >one <<'EOF'
flags="-w -O1 -fno-builtin -std=gnu11 -D_GNU_SOURCE -include settings.h -Iinclude -idirafter include/support"
name=$(basename "$2" .c) dir=$(basename "$(dirname "$2")")
case $1 in
    object) timeout 60 gcc $flags -c "$2" -o "objects/$name.o" ;;
    program) timeout 60 gcc $flags "$2" -o "bin/$dir.$name" libsupport.a -lm -lpthread -ldl -lrt ;;
esac 2>>errors || rm -f "bin/$dir.$name"
EOF
    ls source/support/*.c | xargs -P 2 -I {} sh one object {}
    ar rcs libsupport.a objects/*.o
    for dir in malloc nptl sysdeps/pthread stdlib posix dlfcn stdio-common libio string; do
        ls source/$dir/*tst-*.c source/$dir/bug-*.c source/$dir/test-*.c 2>/dev/null
    done | grep -vE "$own" | grep -vE "($driven)[^/]*\.c$" >sources
    xargs -P 2 -I {} sh one program {} <sources
    find bin -type f | sort >list
}

# one_test TEST: in a session of its own, as one that hangs leaves children.
one_test() {
    local program work
    program=$(realpath "$1") work=$(mktemp -d "$PWD/work.XXXXXX")
    export LC_ALL=C
    setsid --wait bash -c 'cd "$0" && echo $$ >session && exec timeout -k 1 40 "$1" >out 2>&1' \
        "$work" "$program" </dev/null 2>/dev/null
    echo "$1 $?"
    # One that forks all the time can be ahead of a single blow.
    for _ in {1..20}; do pkill -KILL -s "$(cat "$work/session")" || break; sleep 0.05; done
    rm -rf "$work"
}

# Most of their time they wait.
run() { xargs -P 4 -I {} bash "$0" one_test {} <"$1"; }

"$@"

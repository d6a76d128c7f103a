# Sourced by programs-by-hand: programs that run and end by themselves.

check_node() { need node && compare "node: 16 workers" "" -- node "$LOADS/workers.js"; }

check_java() {
    need javac || return
    local dir=$SCRATCH/java options
    step "java: javac under the library makes classes" run javac -d "$dir/with" "$LOADS/Threads.java"
    javac -d "$dir/without" "$LOADS/Threads.java"
    step "java: the same classes" diff -r "$dir/without" "$dir/with"
    # Each collector has threads of its own; each way to start a child differs
    # in what the child does before it is another program.
    for options in -XX:+UseG1GC "-XX:+UseParallelGC -Djdk.lang.Process.launchMechanism=VFORK" \
        "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djdk.lang.Process.launchMechanism=FORK"; do
        # shellcheck disable=SC2086 # Options are words.
        compare "java $options" "" -- java -Xmx256m $options -cp "$dir/without" Threads
    done
}

check_go() {
    local go
    go=$(command -v go || echo /usr/local/go/bin/go)
    has "$go" && has gcc || { skip "go or gcc is not installed"; return; }
    local build=(env CGO_ENABLED=1 GO111MODULE=off GOCACHE="$SCRATCH/go-cache" GOFLAGS=-p=2
        "$go" build -trimpath -o "$SCRATCH/goroutines" "$LOADS/goroutines.go")
    # The tool is static: the C compiler and the linker that it starts are under us.
    step "go: builds C and Go" run "${build[@]}" || return
    has "$SCRATCH/goroutines" || return
    compare "go: goroutines with C memory" "" GODEBUG=cgocheck=1 -- "$SCRATCH/goroutines"
    compare "go on one CPU's worth of threads" "" -- env GOMAXPROCS=1 "$SCRATCH/goroutines"
}

check_php() {
    need php || return
    # Debian's PHP loads extensions with RTLD_DEEPBIND: they call the C library's
    # free with what the C library, for strdup, got from us.
    compare "php with its extensions" "" -- php "$LOADS/table.php"
    compare "php without extensions" "" -- php -n "$LOADS/table.php"
    # Its own allocator stands aside: each value is an allocation of ours.
    compare "php without extensions" "USE_ZEND_ALLOC=0" -- php -n "$LOADS/table.php"
}

check_ruby() { need ruby && compare ruby "" -- ruby "$LOADS/table.rb"; }
check_r() { need Rscript && compare R "" -- Rscript --vanilla "$LOADS/frames.R"; }

check_clang() {
    need clang || return
    compare clang "" -- env CC=clang CXX=clang++ bash "$LOADS/compile.sh" "$LOADS"
    compare "clang through its own passes" "" -- bash -c 'cp "$0/words.cc" . && clang++ -std=c++17 -O3 -g -fdebug-compilation-dir=. -flto -c \
        -fno-integrated-cc1 words.cc && cksum words.o && clang++ --analyze -Xclang -analyzer-output=text words.cc' "$LOADS"
}

check_ffmpeg() { need ffmpeg && compare ffmpeg "" -- bash "$LOADS/media.sh"; }

check_chromium() {
    need chromium || return
    compare "chromium without its sandbox" "" -- bash "$LOADS/browser.sh" "$LOADS" --no-sandbox
    [ "$(id -u)" = 0 ] || { compare "chromium" "" -- bash "$LOADS/browser.sh" "$LOADS"; return; }
    # Its sandbox refuses root.
    # shellcheck disable=SC2016 # For the shell inside.
    compare "chromium in its sandbox" "" -- bash -c 'chown nobody . && exec setpriv --reuid nobody --regid nogroup \
        --clear-groups bash "$0/browser.sh" "$0"' "$LOADS"
}

# Sourced by programs-by-hand: servers that clients put under load while they
# fork, reload and end.
. "$LOADS/server.sh"

# ended NAME PID: stopped by itself with code 0, and in time.
ended() {
    wait_for 60 eval "! kill -0 $2" || kill -KILL "$2"
    step "$1" wait "$2"
}

# A server of these is started by a script that is under the library as a
# whole, so that clients and shells are too.
check_mariadb() {
    has mariadbd || has /usr/sbin/mariadbd || { skip "mariadbd is not installed"; return; }
    need mariadb-install-db || return
    need mariadb && compare mariadb "" -- bash "$LOADS/mariadb.sh" "$LOADS"
}

check_nginx() {
    has nginx || has /usr/sbin/nginx || { skip "nginx is not installed"; return; }
    need curl && compare nginx "" -- bash "$LOADS/nginx.sh" "$LOADS"
}

check_sshd() {
    has /usr/sbin/sshd || { skip "sshd is not installed"; return; }
    [ "$(id -u)" = 0 ] || { skip "sshd keeps its sandbox for root"; return; }
    need sftp && compare sshd "" -- bash "$LOADS/sshd.sh" "$LOADS"
}

check_redis() {
    need redis-server && need redis-benchmark || return
    local dir=$SCRATCH/redis port=$((20000 + RANDOM % 20000)) pid saved
    mkdir "$dir"
    redis() { redis-cli -p "$port" "$@"; }
    run redis-server --bind 127.0.0.1 --port "$port" --dir "$dir" --save '' --enable-debug-command yes \
        --logfile "$dir/log" >/dev/null 2>"$dir/err" &
    pid=$!
    if ! wait_for 20 redis ping; then
        cat "$dir/err" "$dir/log"
        fail "redis: does not start"
        kill -KILL "$pid"
        return
    fi
    step "redis: benchmark" eval 'redis-benchmark -p "$port" -q -n 40000 -r 20000 -c 40 -P 4 \
        -t set,get,incr,lpush,lpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset >"$dir/bench" 2>&1'
    saved=$(redis lastsave)
    sleep 1 # LASTSAVE counts seconds.
    redis bgsave >/dev/null
    step "redis: benchmark while a fork saves" eval \
        'redis-benchmark -p "$port" -q -n 40000 -r 20000 -d 300 -t set,get,lpush >>"$dir/bench" 2>&1'
    # shellcheck disable=SC2317 # Called by name.
    saved_again() { [ "$(redis lastsave)" -gt "$saved" ]; }
    step "redis: BGSAVE ends" wait_for 60 saved_again
    redis info persistence | tr -d '\r' >"$dir/persistence"
    step "redis: the save was sound" grep -qx 'rdb_last_bgsave_status:ok' "$dir/persistence"
    redis debug digest >"$dir/before"
    step "redis: reloads what it saved" eval 'redis debug reload | grep -qx OK'
    redis debug digest >"$dir/after"
    step "redis: the data are the same" cmp "$dir/before" "$dir/after"
    step "redis: has data" eval '[ "$(redis dbsize)" -gt 1000 ]'
    redis flushall >/dev/null
    redis shutdown nosave >/dev/null 2>&1
    ended "redis: ends" "$pid"
}

check_postgres() {
    local bin dir=$SCRATCH/postgres user=postgres as=() pid library
    bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
    [ -n "$bin" ] || bin=$(dirname "$(command -v initdb || echo /none/initdb)")
    [ -x "$bin/initdb" ] || { skip "postgresql is not installed"; return; }
    local pgbench=$bin/pgbench psql=$bin/psql
    has "$pgbench" || pgbench=pgbench
    need "$pgbench" || return

    # It refuses to run as root; another user may not read the build's directory.
    mkdir -p "$dir/lib"
    cp "$SLABYARD" "$dir/lib/slabyard"
    for library in "$(dirname "$SLABYARD")"/libslabyard_*.so; do
        [ ! -e "$library" ] || cp "$library" "$dir/lib/"
    done
    if [ "$(id -u)" = 0 ]; then
        id "$user" >/dev/null 2>&1 || user=nobody
        chown -R "$user" "$dir" && chmod 755 "$SCRATCH"
        as=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups env HOME="$dir")
    fi
    local ours=("${as[@]}" "$dir/lib/slabyard" run --report none --)
    export PGHOST=$dir PGDATABASE=postgres PGUSER=postgres
    ask() { "${as[@]}" "$psql" -Atc "$1"; }

    step "postgres: initdb" eval '(cd "$dir" && "${ours[@]}" "$bin/initdb" -D "$dir/data" -U postgres \
        -A trust --no-sync >"$dir/initdb.log" 2>&1) || ! tail -n 5 "$dir/initdb.log"'
    (cd "$dir" && exec "${ours[@]}" "$bin/postgres" -D "$dir/data" -k "$dir" -c listen_addresses= \
        -c jit=on -c jit_above_cost=0) >"$dir/log" 2>&1 &
    pid=$!
    if ! wait_for 30 ask 'select 1'; then
        tail -n 5 "$dir/log"
        fail "postgres: does not start"
        kill -KILL "$pid"
        return
    fi
    step "postgres: pgbench fills its tables" eval '"${ours[@]}" "$pgbench" -i -q -s 5 >"$dir/bench" 2>&1'
    step "postgres: pgbench, 8 clients" eval '"${ours[@]}" "$pgbench" -n -c 8 -j 2 -T 10 >>"$dir/bench" 2>&1'
    step "postgres: new connections" eval '"${ours[@]}" "$pgbench" -n -C -S -c 4 -T 5 >>"$dir/bench" 2>&1'
    ask "select sum(delta) <> 0, count(*) > 100,
            sum(delta) = (select sum(abalance) from pgbench_accounts),
            sum(delta) = (select sum(tbalance) from pgbench_tellers),
            sum(delta) = (select sum(bbalance) from pgbench_branches) from pgbench_history" >"$dir/books"
    step "postgres: the books add up" grep -qx 't|t|t|t|t' "$dir/books"
    ask "select count(*), sum(length(s)) from (select string_agg(md5(n::text), ',' order by n desc) s
            from generate_series(1, 200000) n group by n % 1000) x" >"$dir/sum"
    step "postgres: a large sort and aggregate" grep -qx '1000|6599000' "$dir/sum"
    "${as[@]}" "$bin/pg_ctl" -D "$dir/data" -m fast stop >/dev/null
    ended "postgres: ends" "$pid"
    # A process that dies by a signal takes the others down; the log tells.
    step "postgres: no process crashed" eval '! grep -E "terminated by signal|PANIC|slabyard:" "$dir/log"'
}

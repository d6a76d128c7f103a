# A MariaDB of its own on a socket: its tables are made, rows come and go, by
# one client and by several at once. $1 is the directory with the loads.
. "$1/server.sh"
sql=$1/shop.sql
# A socket's path is short.
dir=$(mktemp -d /tmp/slabyard-db.XXXXXX)
trap 'rm -rf "$dir"' EXIT
own=(--no-defaults --datadir="$dir/data" --user="$(id -un)")
ask() { mariadb --no-defaults --socket="$dir/socket" --user="$(id -un)" "$@"; }

mariadb-install-db "${own[@]}" --skip-test-db --auth-root-authentication-method=normal >log 2>&1
echo "its tables are made: $?"
(
    serve "$(command -v mariadbd || echo /usr/sbin/mariadbd)" "${own[@]}" --socket="$dir/socket" \
        --skip-networking --innodb-buffer-pool-size=48M --innodb-log-file-size=16M --pid-file="$dir/pid"
    ready ask -e 'select 1'
    ask -N <"$sql" || exit 1
    clients=()
    for client in 1 2 3 4 5 6; do
        for query in {1..40}; do
            echo "SELECT $client, SUM(CRC32(CONCAT(note, $query))), COUNT(DISTINCT customer) FROM orders
                  WHERE id % 40 = $query;"
            echo "CREATE TEMPORARY TABLE t$query SELECT * FROM orders ORDER BY note LIMIT 300; DROP TABLE t$query;"
        done | ask -N shop >"client$client" 2>&1 &
        clients+=($!)
    done
    # Connections that come and go beside them.
    for n in {1..30}; do ask -N -e "SELECT $n, REPEAT('c', $n)" shop; done | cksum
    wait "${clients[@]}"
    cat client? | cksum
    end_server
) || exit 1
grep -E 'got signal|slabyard:|Assertion|\[ERROR\]' log
exit 0

# Sourced by the loads that start a server: it is started, served by, and
# ended here, by its process id, and in time.

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
    local tries=$(($1 * 10))
    shift
    until "$@" >/dev/null 2>&1; do
        ((tries-- > 0)) || return 1
        sleep 0.1
    done
}

# serve COMMAND...: starts it; what it says goes to the file log.
serve() {
    "$@" >>log 2>&1 </dev/null &
    server=$!
    trap 'kill -KILL $server 2>/dev/null' EXIT
}

# ready COMMAND...: once it succeeds the server is up; if it does not, its log
# tells why, and that is the end.
ready() {
    wait_for 30 "$@" && return
    echo "the server does not start"
    tail -n 20 log
    exit 1
}

# end_server [SIGNAL]: asks the server to end and tells how it did.
end_server() {
    kill "-${1:-TERM}" "$server"
    wait_for 60 eval "! kill -0 $server" || { echo "the server does not end"; kill -KILL "$server"; }
    wait "$server"
    echo "the server ended with $?"
    trap - EXIT
}

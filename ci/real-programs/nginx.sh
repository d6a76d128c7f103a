# nginx with two workers: files of many sizes, packed and not, kept and new
# connections, a reload while requests run. $1 is the directory with the loads.
. "$1/server.sh"
port=$((20000 + RANDOM % 20000))
mkdir -p site tmp
for n in {0..60}; do
    head -c $((n * n * 300)) /dev/zero | tr '\0' "$(printf "\\x$((30 + n % 10))")" >"site/$n.txt"
done
# The master is the one that may be root: workers must read the files.
chmod 755 . site
cat >conf <<EOF
daemon off;
worker_processes 2;
pid $PWD/pid;
error_log $PWD/errors;
user $(id -un) $(id -gn);
events { worker_connections 64; }
http {
    access_log $PWD/access;
    client_body_temp_path $PWD/tmp/a;
    proxy_temp_path $PWD/tmp/b;
    fastcgi_temp_path $PWD/tmp/c;
    uwsgi_temp_path $PWD/tmp/d;
    scgi_temp_path $PWD/tmp/e;
    gzip on;
    gzip_types *;
    gzip_min_length 1;
    sendfile off;
    server {
        listen 127.0.0.1:$port;
        root $PWD/site;
        location /again/ { proxy_pass http://127.0.0.1:$port/; proxy_buffers 4 4k; }
        location ~ ^/match/(?<digits>\d+)\$ { return 200 "matched \$digits\n"; }
        location / { autoindex off; }
    }
}
EOF
get() { curl -s --max-time 20 "$@"; }
all() {
    local urls=()
    for n in {0..60}; do urls+=("http://127.0.0.1:$port/$1$n$2"); done
    get ${3-} "${urls[@]}" | cksum
}
serve "$(command -v nginx || echo /usr/sbin/nginx)" -p "$PWD" -c "$PWD/conf" -e "$PWD/errors"
ready get -o none "http://127.0.0.1:$port/1.txt"
all '' .txt
all '' .txt --compressed
all again/ .txt
all match/ ''
clients=()
for client in 1 2 3 4; do
    { all '' .txt --compressed; all again/ .txt; all absent/ '' | wc -l; } >"client$client" 2>&1 &
    clients+=($!)
done
for _ in 1 2 3; do
    kill -HUP "$server"
    sleep 0.3
    get "http://127.0.0.1:$port/match/7"
done
wait "${clients[@]}"
cat client?
all '' .txt
head -c 300000 /dev/zero >posted
get --data-binary @posted "http://127.0.0.1:$port/match/8"
end_server QUIT
grep -E 'exited on signal|slabyard:|\[(alert|emerg|crit)\]' errors log
exit 0

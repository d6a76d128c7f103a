# sshd with its sandbox, on the loopback: logins with a key that is made for
# them, several at once, a copy by sftp. $1 is the directory with the loads.
# sshd must be started with its whole path: it starts itself again.
. "$1/server.sh"
port=$((20000 + RANDOM % 20000))
mkdir -p /run/sshd
for name in host user; do ssh-keygen -q -t ed25519 -N '' -f "$name"; done
cp user.pub authorized
cat >conf <<EOF
Port $port
ListenAddress 127.0.0.1
HostKey $PWD/host
AuthorizedKeysFile $PWD/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
PidFile none
Subsystem sftp internal-sftp
EOF
options=(-F none -i "$PWD/user" -o BatchMode=yes -o ConnectTimeout=10 -o StrictHostKeyChecking=accept-new
    -o UserKnownHostsFile="$PWD/known" -o LogLevel=ERROR)
enter() { ssh "${options[@]}" -p "$port" "$(id -un)@127.0.0.1" "$@" </dev/null; }

serve /usr/sbin/sshd -D -e -f "$PWD/conf"
ready bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"
enter echo entered
echo "ended with $?"
enter 'head -c 3000000 /dev/zero | tr "\0" s' | cksum
enter 'exit 7'
echo "ended with $?"
clients=()
for client in 1 2 3 4; do
    { for _ in 1 2; do enter "seq $client 20000 | sort -n | tail -n 1"; done; } >"client$client" 2>&1 &
    clients+=($!)
done
wait "${clients[@]}"
cat client?
head -c 700000 /dev/zero | tr '\0' f >sent
echo "put $PWD/sent $PWD/received" | sftp "${options[@]}" -P "$port" -b - "$(id -un)@127.0.0.1" >/dev/null
cmp sent received && echo copied
end_server
# What its children die of is only told here.
grep -E 'killed by signal|terminated by signal|preauth child|slabyard:' log
exit 0

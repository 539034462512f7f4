reachable=no
sshd=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v sshd || :)
if [ -z "$sshd" ] || ! command -v ssh-keygen >/dev/null; then
    say WARN 'This task has no sshd: openssh-server is not in the image. '@without@
elif [ "$(id -u)" != 0 ]; then
    say WARN 'This task has no sshd: it does not run as root. '@without@
else
    # Tasks authenticate each other by the key of the job: another program on a freed port does not have it.
    key=$own/id_ed25519
    if [ ! -e "$key" ]; then
        key=$own/host_key
        rm -f "$key"
        ssh-keygen -q -t ed25519 -N '' -f "$key"
    fi
    [ -d /run/sshd ] || mkdir -p -m 0755 /run/sshd
    env | grep '^[A-Za-z_][A-Za-z0-9_]*=' | grep -v '^\(PWD\|OLDPWD\|SHLVL\|_\)=' >"$ssh/environment"
    {
        echo "Port $PAI_CONTAINER_SSH_PORT"
        echo "HostKey $key"
        echo "AuthorizedKeysFile $own/authorized_keys .ssh/authorized_keys"
        echo "PidFile $own/sshd.pid"
        echo 'PasswordAuthentication no'
        echo 'KbdInteractiveAuthentication no'
        echo 'PermitRootLogin prohibit-password'
        echo 'PermitUserEnvironment yes'
        echo 'UsePAM no'
        echo 'StrictModes no'
        echo 'Subsystem sftp internal-sftp'
    } >"$own/sshd_config"
    rm -f "$own/sshd.pid" "$own/sshd.log"
    if "$sshd" -f "$own/sshd_config" -E "$own/sshd.log"; then
        # It goes to the background before it listens, and writes this file after that.
        tries=0
        until [ -s "$own/sshd.pid" ] || [ "$tries" -ge 100 ] || grep -q 'Cannot bind' "$own/sshd.log"; do
            tries=$((tries + 1))
            sleep 0.1 2>/dev/null || sleep 1
        done
    fi
    if [ -s "$own/sshd.pid" ]; then
        reachable=yes
        say INFO "sshd listens on port $PAI_CONTAINER_SSH_PORT."
    else
        say ERROR "sshd does not start: $(tail -n 1 "$own/sshd.log" 2>/dev/null)"
        exit 1
    fi
fi

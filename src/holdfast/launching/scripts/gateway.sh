# The settings common to all tasks, for the name of the gateway.
cat <<__
Match user @job@.*
    HostName @host@
    Port @port@
    IdentityFile "$own/id_ed25519"
    IdentitiesOnly yes
    PreferredAuthentications publickey
    StrictHostKeyChecking yes
    UserKnownHostsFile "$own/gateway"
    GlobalKnownHostsFile /dev/null
    LogLevel ERROR
__

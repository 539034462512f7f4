# ssh reads the home folder from the image's user list, not from HOME.
client=$(ssh -V 2>&1) || :
case $client in
OpenSSH_*) ;;
*) client= ;;
esac
ssh=$(eval "echo ~$(id -un 2>/dev/null)" 2>/dev/null)/.ssh
case $ssh in
/*) mkdir -p "$ssh" 2>/dev/null || ssh=$HOME/.ssh ;;
*) ssh=$HOME/.ssh ;;
esac

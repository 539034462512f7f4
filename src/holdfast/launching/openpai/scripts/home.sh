# The image's own home: .bashrc, programs, models. Only bash finds it without HOME.
__given=$HOME
unset HOME
__own=~
HOME=$__given
case $__own in
/?*) [ ! -d "$__own" ] || [ ! -w "$__own" ] || HOME=$__own ;;
esac
export HOME

# Written ten at a time: one system call for each would dominate the cost.
hosts() {
    number=0
    told=
    while [ "$number" -lt "$3" ]; do
        told="${told}Host $1-$number${2:+ $2-$number}
    User "@job@".$1-$number
"
        number=$((number + 1))
        case $number in
        *0) printf %s "$told" && told= ;;
        esac
    done
    printf %s "$told"
}

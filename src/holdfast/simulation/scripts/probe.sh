for word in @programs@; do
    [ -z "$word" ] || command -v -- "$word" >/dev/null 2>&1 || command -v "$word" >/dev/null 2>&1 ||
        printf 'program %s\n' "$word"
done
for path in @files@; do
    [ -z "$path" ] || [ -e "$path" ] || printf 'file %s\n' "$path"
done
for path in @folders@; do
    [ -z "$path" ] || [ -d "$path" ] || printf 'folder %s\n' "$path"
done
export -p | while IFS= read -r line; do
    line=${line#declare -x }
    line=${line#export }
    line=${line%%=*}
    case $line in
    *[!A-Za-z0-9_]* | '') ;;
    *) printf 'variable %s\n' "$line" ;;
    esac
done
printf %s @commands@ | "${BASH:-/bin/sh}" -n 2>&1 | while IFS= read -r line; do
    printf 'syntax %s\n' "$line"
done
echo whole

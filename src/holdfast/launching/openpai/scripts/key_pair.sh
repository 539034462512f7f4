# Under both names: OpenPAI's keys were RSA, and scripts name the file. The folder may be a user's own, mounted: an
# existing key stays, and the config names ours.
for name in id_ed25519 id_rsa; do
    rm -f "$own/$name" "$own/$name.pub"
    printf %s @private@ >"$own/$name"
    printf %s @public@ >"$own/$name.pub"
    [ -e "$ssh/$name" ] || cp "$own/$name" "$own/$name.pub" "$ssh/"
done

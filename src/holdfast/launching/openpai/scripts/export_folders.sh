# Paths with a quote in them are skipped: the environment has them anyway.
case $PWD$PAI_RUNTIME_DIR in
*\'*) ;;
*) printf "export %s='%s'\n" PAI_WORK_DIR "$PWD" PAI_RUNTIME_DIR "$PAI_RUNTIME_DIR" \
    >>"$PAI_RUNTIME_DIR/runtime_env.sh" ;;
esac

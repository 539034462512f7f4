mkdir -p @folders@ || :
if ! command -v tensorboard >/dev/null; then
    say INFO 'tensorboard is not in the image; installing it with pip.'
    pip=$(command -v pip3 || command -v pip || :)
    if [ -z "$pip" ] || ! "$pip" install tensorboard >&2; then
        say ERROR 'The runtime plugin tensorboard needs tensorboard in the image, or pip and network access.'
        exit 1
    fi
fi
nohup tensorboard @logdir@ --port=@port@ --bind_all >"$PAI_RUNTIME_DIR/logs/tensorboard.log" 2>&1 &
say INFO 'Starting TensorBoard on port @port@.'

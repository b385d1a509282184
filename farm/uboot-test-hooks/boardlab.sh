# Sourced by the hooks: finds a board's labgrid environment, and says what is wrong on standard error.

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# environment BOARD_TYPE BOARD_ID: sets `env`.
environment() {
    [ $# -ge 2 ] || fail "expected BOARD_TYPE and BOARD_ID, as U-Boot's test/py gives them"
    command -v lab >/dev/null || fail "no program 'lab' in PATH; add the bin folder of boardlab's environment to it"
    [ -n "${BOARDLAB_ENVS:-}" ] ||
        fail "BOARDLAB_ENVS is not set: export the folder in which $1-$2.yaml or $1.yaml, labgrid's file of the board, is"
    for env in "$BOARDLAB_ENVS/$1-$2.yaml" "$BOARDLAB_ENVS/$1.yaml"; do
        [ ! -f "$env" ] || return 0
    done
    fail "no $1-$2.yaml and no $1.yaml in $BOARDLAB_ENVS (BOARDLAB_ENVS); put a link to the board's labgrid file there"
}

# console: prints the device of the board's console.
console() {
    lab env port "$env" || fail "the console of $env is not there; see above"
}

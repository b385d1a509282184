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
    lab env port --env "$env" || fail "the console of $env is not there; see above"
}

# unmeasured PORT SECONDS: waits until somebody is attached to the port who can type; status 1 when nobody came in time.
# Fails where that is no `lab console attach` but a measurement: its board is left alone.
unmeasured() {
    said=$(lab console wait "$1" --timeout "$2" 2>/dev/null) || return 1
    writer=$(printf '%s\n' "$said" | sed -n 's/^process \([0-9]*\) .*/\1/p')
    program=$(tr '\0' ' ' <"/proc/$writer/cmdline") || program= # it has ended by now
    case $program in
        *" console attach "* | '') ;;
        *) fail "process $writer uses $1 ($program); a board that somebody measures is left alone. Wait for it, or end it" ;;
    esac
}

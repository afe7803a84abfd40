#!/usr/bin/env bash
# test.sh: checks slug.sh; the exit code is the number of failures.
cd "$(dirname "$0")" || exit 99
source ./slug.sh

failures=0
check() {
    local got
    got=$(slugify "$1")
    if [[ $got == "$2" ]]; then
        echo "ok    $2"
    else
        echo "FAIL  '$1': expected '$2', got '$got'"
        failures=$((failures + 1))
    fi
}

check "Hello World" "hello-world"
check "Already-a-slug" "already-a-slug"
check "Rust & Shell: a love story" "rust-shell-a-love-story"
check "  padded  " "padded"

echo "$((4 - failures)) of 4 tests passed"
echo "$failures" > .last-result
exit "$failures"

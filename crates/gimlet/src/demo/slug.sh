#!/usr/bin/env bash
# slug.sh TITLE: prints the title as a URL slug.

slugify() {
    local text=$1
    text=${text,,}                 # lower case
    text=${text//[^a-z0-9]/-}      # everything else becomes a dash
    text=${text#-}                 # no dash at the start
    text=${text%-}                 # no dash at the end
    printf '%s\n' "$text"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    slugify "$1"
fi

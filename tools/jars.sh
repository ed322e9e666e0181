#!/usr/bin/env bash
# Fetches jars by Maven into the folder where Penstock looks for them; at once when they are there.
# Usage: tools/jars.sh connectors   what Spark needs for Kafka and Delta
#        tools/jars.sh broker       a broker of Kafka, which the tests start
#        tools/jars.sh store        an object store that speaks S3, which the tests start
#        tools/jars.sh registry     a schema registry, which the tests start
set -euo pipefail

what=${1:?connectors, broker, store or registry}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/penstock
case $what in
    connectors)
        pom=$here/jars/pom.xml
        folder=${PENSTOCK_JARS:-$cache/jars}
        goal="dependency:copy"
        ;;
    broker)
        pom=$here/jars/broker/pom.xml
        folder=${PENSTOCK_BROKER:-$cache/broker}
        goal="dependency:copy-dependencies -DincludeScope=runtime"
        ;;
    store)
        pom=$here/jars/store/pom.xml
        folder=${PENSTOCK_STORE:-$cache/store}
        goal="dependency:copy"
        ;;
    registry)
        pom=$here/jars/registry/pom.xml
        folder=${PENSTOCK_REGISTRY:-$cache/registry}
        goal="dependency:unpack"
        ;;
    *)
        echo "there is no $what to fetch; there are connectors, broker, store and registry" >&2
        exit 2
        ;;
esac

# The list itself, beside the jars, says that all of it was fetched.
if cmp --silent "$pom" "$folder/pom.xml"; then
    exit 0
fi
if ! command -v mvn >/dev/null; then
    echo "Maven (mvn) is needed to fetch the jars that $pom names. Install it, or put them into" \
        "$folder." >&2
    exit 1
fi
echo "fetching jars into $folder"
mkdir -p "$folder"
# shellcheck disable=SC2086
if ! said=$(mvn --quiet --batch-mode --file "$pom" $goal "-DoutputDirectory=$folder" 2>&1); then
    echo "$said" | tail -5 >&2
    exit 1
fi
cp "$pom" "$folder/pom.xml"
